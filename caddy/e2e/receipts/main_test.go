// Package receipts tests what the built binary takes for received money, and what it says when it cannot know.
package receipts

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
