package operator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

func TestDiagnosticsListOtherPaymentLinks(t *testing.T) {
	o := newFixture(t)
	o.Report = func() Diagnostics { return Diagnostics{} }
	o.health = observe.Health{Rail: "card", OtherLinks: "plink_2 plink_3"}
	require.Equal(t, []RailState{{Rail: "card", OtherLinks: "plink_2 plink_3"}}, o.Diagnose(t.Context()).Rails)
}
