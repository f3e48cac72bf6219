// Package crash proves that a killed server loses no payment and makes none twice: the built command dies at any moment
// and at every named point of its write path, while a simulated chain and a facilitator that broadcasts live on.
package crash

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
