package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/observations"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// movements are all that a desk tells.
func (f *fixture) movements() (rows []report.Movement, end MovementsEnd) {
	f.t.Helper()
	require.NoError(f.t, f.Movements(f.t.Context(), func(line MovementLine) error {
		if line.End != nil {
			end = *line.End
		} else {
			rows = append(rows, *line.Movement)
		}
		return nil
	}))
	require.Empty(f.t, end.Error)
	require.EqualValues(f.t, len(rows), end.Count)
	return rows, end
}

// refund tells that a part of a card payment went back.
func (f *fixture) refund(id string, amount int64) { f.refundOf(id, amount, 1) }

// refundOf is a refund that its source dates, in Unix seconds.
func (f *fixture) refundOf(id string, amount, at int64) {
	f.t.Helper()
	must(f.book.Record(f.t.Context(), nil, ledger.Observation{
		Offer: testOffer, Account: f.account("card").ID, Rail: "card", ExternalID: id, EvidenceLevel: ledger.LevelSigned, Addendum: true,
		Returns: []ledger.Return{{ID: "re_1", Kind: ledger.ReturnRefund, Amount: amount, Gone: true, At: at}},
	}))(f.t)
}

func TestRefundLeavesEarlierMonthUnchanged(t *testing.T) {
	o := newFixture(t)
	day := func(s string) int64 {
		at := must(time.Parse(time.DateOnly, s))(t)
		return at.Unix()
	}
	o.unix = day("2027-01-10")
	o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusConfirmed)
	january, _ := o.movements()
	o.unix = day("2027-03-05")
	o.refund("pi_1", 1200)
	got, end := o.movements()
	require.Len(t, got, 2)
	require.Equal(t, january[0], got[0])
	require.Equal(t, "2027-03-05T00:00:00Z refund -12 USD -12.00", fmt.Sprint(got[1].Date, " ", got[1].Kind, " ", got[1].Paid(), " ", *got[1].AmountUSDDecimal))
	require.EqualValues(t, 3000, end.ReceivedCents)

	o.unix = day("2028-01-02")
	o.sees("card", "pi_2", ledger.LevelSigned, ledger.StatusConfirmed)
	o.unix = day("2028-02-02") // its source tells late of a refund of January
	o.refundOf("pi_2", 700, day("2028-01-31"))
	got, _ = o.movements()
	require.Equal(t, "2028-01-31T00:00:00Z refund -7 USD", fmt.Sprint(got[3].Date, " ", got[3].Kind, " ", got[3].Paid()))
}

// What the operator corrects in a later month leaves the lines of the closed one as they were.
func TestCorrectionLeavesEarlierMonthUnchanged(t *testing.T) {
	o := newFixture(t)
	lines := func() (all []string) {
		rows, _ := o.movements()
		for _, m := range rows {
			all = append(all, fmt.Sprint(m.Line, " ", m.Date[:10], " ", m.Kind, " ", *m.AmountUSD, " ", m.RecordedAt[:10], " ", m.Reason))
		}
		return all
	}
	e := inv7("42", "")
	e.Date = "2026-11-20"
	o.must("enter", e)
	refund := inv7("10", "half")
	refund.Date = "2026-11-21"
	o.must("refund", refund)
	closed := lines()
	require.Equal(t, []string{"1v1p1 2026-11-20 payment 42 2026-11-21 ", "1v2p1 2026-11-21 refund -10 2026-11-21 half"}, closed)

	o.unix += 20 * day // 2026-12-11
	o.must("restore", inv7("", "it came back"))
	require.Equal(t, append(closed, "1v3p1 2026-12-11 refund_undone 10 2026-12-11 it came back"), lines())
	o.must("void", inv7("", "wrong day"))
	e = inv7("40", "as on the statement")
	e.Date = "2026-11-19"
	o.must("enter", e)
	require.Equal(t, append(closed, "1v3p1 2026-12-11 refund_undone 10 2026-12-11 it came back",
		"1v4p1 2026-12-11 reversal -42 2026-12-11 wrong day",
		"1v5p1 2026-11-19 correction -2 2026-12-11 as on the statement", "1v5p2 2026-11-19 reversal_undone 42 2026-12-11 as on the statement",
	), lines())
}

func TestMovementsOfUnpaidReceiptsNotCounted(t *testing.T) {
	o := newFixture(t)
	o.sees("card", "paid", ledger.LevelSigned, ledger.StatusConfirmed)
	o.sees("card", "pending", ledger.LevelSigned, ledger.StatusSeen)
	o.sees("card", "failed", ledger.LevelSigned, ledger.StatusDropped)
	o.sees("usdc", "moved", ledger.LevelChain, ledger.StatusMoved)
	rows, end := o.movements()
	counted := make(map[string]bool)
	for _, m := range rows {
		counted[m.ID] = m.Counted
	}
	require.Equal(t, map[string]bool{"paid": true, "pending": false, "failed": false, "moved": false}, counted)
	require.EqualValues(t, 4200, end.ReceivedCents)
}

// A snapshot neither sees nor delays what is written while it is read.
func TestMovementsReadOneSnapshot(t *testing.T) {
	o := newFixture(t)
	o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusConfirmed)
	var rows int
	require.NoError(t, o.Movements(t.Context(), func(line MovementLine) error {
		if line.End == nil {
			rows++
			o.sees("card", "pi_2", ledger.LevelSigned, ledger.StatusConfirmed)
			o.refund("pi_1", 1200)
		} else {
			require.EqualValues(t, 4200, line.End.ReceivedCents)
			require.Empty(t, line.End.Error)
		}
		return nil
	}))
	require.Equal(t, 1, rows)
}

func TestMovementsOfClosedLedgerEndWithError(t *testing.T) {
	o := newFixture(t)
	var payments []ledger.Observation
	for n := range 600 { // more than a page
		payments = append(payments, o.payment("card", fmt.Sprint("pi_", n), ledger.LevelSigned, ledger.StatusConfirmed))
	}
	must(o.book.Record(t.Context(), nil, payments...))(t)
	var end *MovementsEnd
	rows := 0
	require.NoError(t, o.Movements(t.Context(), func(line MovementLine) error {
		if rows++; rows == 1 {
			require.NoError(t, o.book.Close(), "nobody waits for a reader")
		}
		end = line.End
		return nil
	}))
	require.Contains(t, end.Error, "could not be read to its end")
	require.NoError(t, o.book.Open(t.Context()))
	o.movements()
}

func TestMovementsStopIfReaderLeaves(t *testing.T) {
	o := newFixture(t)
	o.sees("card", "pi_1", ledger.LevelSigned, ledger.StatusConfirmed)
	left := errors.New("the reader left")
	require.ErrorIs(t, o.Movements(t.Context(), func(MovementLine) error { return left }), left)
	o.movements()
}

// The lines of each place of the sums add up to it, whatever happened: the desk
// compares them itself, and here its own comparison is made to fail too.
func TestMovementsOfRandomHistoriesMatchSums(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, func() time.Time) *ledger.Ledger{"sqlite": inSQLite, "postgres": inPostgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unix := int64(1_000)
			o := newFixture(t)
			o.Ledger = open(t, func() time.Time { return time.Unix(unix, 0) })
			o.Logger = slog.New(slog.DiscardHandler)
			require.NoError(t, o.Ledger.Open(t.Context()))
			t.Cleanup(func() { require.NoError(t, o.Ledger.Close()) })
			require.NoError(t, o.Ledger.Register(t.Context(),
				ledger.Account{Offer: testOffer, ID: observations.ChainAccount, Rail: "usdc"},
				ledger.Account{Offer: testOffer, ID: observations.CardAccount, Rail: "card"}))
			rng := rand.New(rand.NewPCG(11, 6))
			for n := 0; n < cases.Of(400, 10_000, 100_000); n += 200 {
				histories, most := make([][]ledger.Observation, 200), 0
				for i := range histories {
					histories[i] = observations.RandomHistory(rng, fmt.Sprint(n+i))
					most = max(most, len(histories[i]))
				}
				for step := range most {
					unix++
					var batch []ledger.Observation
					for _, history := range histories {
						if step < len(history) {
							batch = append(batch, history[step])
						}
					}
					must(o.Ledger.Record(t.Context(), nil, batch...))(t)
				}
			}
			rows, end := o.movements()
			var received, external int64
			for _, m := range rows {
				if m.Counted && m.AmountUSD != nil {
					received += int64(*m.AmountUSD)
					if !m.Own {
						external += int64(*m.AmountUSD)
					}
				}
			}
			require.Equal(t, end.ReceivedCents, received)
			require.Equal(t, end.ExternalCents, external)

			totals := must(o.Ledger.Totals(t.Context(), testOffer))(t)
			require.Greater(t, len(totals), 10, "many places")
			for i := range totals {
				other := append([]ledger.Total(nil), totals...)
				if other[i].Count++; other[i].Held() || other[i].Status == ledger.StatusRefunded || other[i].Status == ledger.StatusReversed {
					require.Error(t, compare(other, foundIn(t, o)), "a sum that is wrong is told of")
					break
				}
			}
		})
	}
}

// foundIn adds up the movements again.
func foundIn(t *testing.T, o *fixture) map[accounting.BalanceKey]movementSum {
	t.Helper()
	snapshot := must(o.Ledger.Snapshot(t.Context(), testOffer))(t)
	defer snapshot.Close()
	found := make(map[accounting.BalanceKey]movementSum)
	for r, err := range snapshot.Receipts(t.Context()) {
		require.NoError(t, err)
		for _, m := range accounting.Movements(r.Receipt, moments(r.History)) {
			found[r.Total().BalanceKey] = found[r.Total().BalanceKey].plus(m)
		}
	}
	return found
}

func TestReceivedReport(t *testing.T) {
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
func TestDiagnosticsExplainUnwritableLedger(t *testing.T) {
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
	require.Contains(t, got.Damaged, "restore an intact backup")
	require.ErrorIs(t, l.Close(), ledger.ErrDamaged)
}

func TestDiagnosticsListFacilitatorRejections(t *testing.T) {
	o := newFixture(t)
	o.Report = func() Diagnostics { return Diagnostics{} }
	o.facilitators = []x402.FacilitatorHealth{{Host: "one.example", Rejection: "settle HTTP 400 invalid_payload"}, {Host: "two.example"}}
	require.Equal(t, map[string]string{"one.example": "settle HTTP 400 invalid_payload"}, o.Diagnose(t.Context()).Rejections)
}
