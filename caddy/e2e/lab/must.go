package lab

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Must requires that a call succeeds, and returns what it returned.
func Must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}
