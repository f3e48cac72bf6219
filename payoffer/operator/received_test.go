package operator

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
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
	got := must(o.Received(t.Context()))(t)
	require.Equal(t, Received{ID: testOffer, BaseURL: "https://pay.example", Report: &report.Summary{Status: "observed"}, Facilitators: []Facilitator{
		{Host: "one.example", Network: "eip155:8453", BazaarStatus: "rejected", BazaarReason: "no schema"},
		{Host: "two.example", Network: "eip155:8453", Reason: "timeout"},
	}}, got)

	o.Trouble = func() string { return "the ledger is locked" }
	got = must(o.Received(t.Context()))(t)
	require.Equal(t, Received{ID: testOffer, BaseURL: "https://pay.example", Trouble: "the ledger is locked"}, got)
}

// What the operator can do about a ledger is in the report, not only in the log.
func TestDiagnosticsSayWhyTheLedgerTakesNoChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := ledger.NewSQLite(path, time.Now)
	o := newFixture(t)
	o.Ledger, o.Report = l, func() Diagnostics { return Diagnostics{} }
	require.Equal(t, LedgerState{Trouble: ledger.ErrNotOpen.Error()}, o.Diagnose(t.Context()).Ledger)
	for range 2 { // the second one has everything in the file itself
		require.NoError(t, l.Close())
		require.NoError(t, l.Open(t.Context()))
	}
	require.Equal(t, LedgerState{Writable: true}, o.Diagnose(t.Context()).Ledger)

	file := must(os.OpenFile(path, os.O_RDWR, 0))(t)
	_, err := io.Copy(io.NewOffsetWriter(file, 4096), strings.NewReader(strings.Repeat("x", 64<<10)))
	require.NoError(t, errors.Join(err, file.Close()))
	require.ErrorIs(t, l.Examine(t.Context()), ledger.ErrDamaged)
	got := o.Diagnose(t.Context()).Ledger
	require.False(t, got.Writable)
	require.Contains(t, got.Damaged, "use a backup instead")
	require.ErrorIs(t, l.Close(), ledger.ErrDamaged)
}
