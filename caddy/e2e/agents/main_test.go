// Package agents tests that clients nobody here wrote discover, understand and pay the offer of the built server.
package agents

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
