// Package standards holds the documents of the built server against validators, resolvers, parsers and generators that
// others wrote, over TLS as in production.
package standards

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
