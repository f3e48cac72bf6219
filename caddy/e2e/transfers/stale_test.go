package transfers

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A chain that shows no new block for minutes hides what was paid since: the rail does not claim to know all.
func TestAChainThatStandsStillIsNotObservedCompletely(t *testing.T) {
	t.Parallel()
	s := openTill(t, 1)
	s.chain.Mine(t, 1)
	require.NoError(t, s.round())
	s.requireObserved()

	s.clock.passed.Add(int64(time.Hour))
	require.NoError(t, s.round())
	s.requirePartial("lagging")

	s.chain.Elapse(t, time.Hour)
	require.NoError(t, s.round())
	s.requireObserved()
}
