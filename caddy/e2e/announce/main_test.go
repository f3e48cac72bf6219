package announce

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
