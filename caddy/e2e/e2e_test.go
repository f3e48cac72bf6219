// Package e2e tests the built server from outside: over HTTP, with official clients, against a chain.
package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// price is the amount of the offer in atomic units of USDC.
const price = 42_000_000

// must requires that a call succeeds.
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}
