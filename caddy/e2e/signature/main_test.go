// Package signature tests that what the server signs is verified by others: the official verifier and the command of
// this repository, with nothing but what the domain publishes.
package signature

import (
	"os"
	"testing"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

func TestMain(m *testing.M) {
	code := m.Run()
	server.RemoveBinary()
	os.Exit(code)
}
