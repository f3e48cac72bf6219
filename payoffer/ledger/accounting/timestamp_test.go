package accounting

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEveryTimestampCanBeReadInEveryZone(t *testing.T) {
	require.Equal(t, "2026-11-20T15:04:05Z", Timestamp(1795187045))
	for _, unix := range []int64{0, 253402214399, 253402300799, 253402300800, 1 << 53, 1<<63 - 1} {
		at, err := time.Parse(time.RFC3339, Timestamp(unix))
		require.NoError(t, err)
		require.Equal(t, min(unix, lastDay), at.Unix())
		for _, hours := range []int{-12, 14} {
			local := at.In(time.FixedZone("", hours*3600)).Format(time.RFC3339)
			_, err := time.Parse(time.RFC3339, local)
			require.NoError(t, err, local)
		}
	}
}
