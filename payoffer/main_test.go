package payoffer

import (
	"testing"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/excerpt"
)

func TestMain(m *testing.M) {
	exit := excerpt.CaddyLog()
	exit(m.Run())
}
