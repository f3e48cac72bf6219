package announce

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPausesDoubleUpToFiveMinutes(t *testing.T) {
	var got []time.Duration
	for failures := 1; failures <= 9; failures++ {
		got = append(got, pause(failures, failure{code: codeRefused}, 0)/time.Second)
	}
	require.Equal(t, []time.Duration{5, 10, 20, 40, 80, 160, 300, 300, 300}, got)
	require.Equal(t, pauseMost, pause(1_000_000, failure{code: codeRefused}, 0), "for good")
	require.Equal(t, 4*time.Second, pause(1, failure{code: codeRefused}, 1), "spread over a fifth")
	require.Equal(t, time.Hour, pause(1, failure{code: codeGone}, 0))
	require.Equal(t, time.Minute, pause(1, failure{code: codeLimited, wait: time.Minute}, 1))
	require.Equal(t, 10*time.Second, pause(2, failure{code: codeLimited, wait: time.Second}, 0))
}
