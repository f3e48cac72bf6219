// Package reload proves that a reload of the configuration interrupts nothing: the built binary is reloaded through Caddy's
// admin API while people, programs and payers use every path of its offer.
package reload

import (
	"os"
	"testing"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/bitcoin"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

func TestMain(m *testing.M) {
	code := m.Run()
	bitcoin.RemoveBinary()
	server.RemoveBinary()
	os.Exit(code)
}
