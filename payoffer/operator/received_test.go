package operator

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/report"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

func TestReceivedIsTheReportOfAnOfferThatTakesPayments(t *testing.T) {
	o := newFixture(t)
	o.Summary = func(context.Context) (report.Summary, error) { return report.Summary{Status: "observed"}, nil }
	o.facilitators = []x402.FacilitatorHealth{
		{Host: "one.example", Network: "eip155:8453", Listing: x402.Listing{Status: "rejected", Reason: "no schema"}},
		{Host: "two.example", Network: "eip155:8453", Reason: "timeout"},
	}
	got, err := o.Received(t.Context())
	require.NoError(t, err)
	require.Equal(t, Received{ID: testOffer, BaseURL: "https://pay.example", Report: &report.Summary{Status: "observed"}, Facilitators: []Facilitator{
		{Host: "one.example", Network: "eip155:8453", BazaarStatus: "rejected", BazaarReason: "no schema"},
		{Host: "two.example", Network: "eip155:8453", Reason: "timeout"},
	}}, got)

	o.Trouble = func() string { return "the ledger is locked" }
	got, err = o.Received(t.Context())
	require.NoError(t, err)
	require.Equal(t, Received{ID: testOffer, BaseURL: "https://pay.example", Trouble: "the ledger is locked"}, got)
}
