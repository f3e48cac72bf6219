// Package e2e tests the built server from outside: over HTTP, with official clients, against a chain.
package e2e

import (
	"os"
	"testing"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// price is the amount of the offer in atomic units of USDC.
const price = 42_000_000

func TestMain(m *testing.M) {
	code := m.Run()
	server.RemoveBinary()
	os.Exit(code)
}
