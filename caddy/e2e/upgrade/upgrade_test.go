package upgrade

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

// TestTheVersionBeforeGoesOnBesideThisOne under traffic: it is alone, this one starts behind a backup, both answer, and this
// one is killed at random moments.
func TestTheVersionBeforeGoesOnBesideThisOne(t *testing.T) {
	t.Parallel()
	old := before(t)
	s := openShop(t)
	older, newer := s.instance(old), s.instance(server.Released(t))
	older.launch()
	older.ready()
	w := s.begin(older)
	began := time.Now()
	w.await(3)

	endBackup := s.backUp()
	newer.launch()
	require.Eventually(t, func() bool {
		got, err := newer.ask(http.MethodGet, "http://"+newer.admin+"/pay_offer/received", nil)
		return err == nil && got.status == http.StatusServiceUnavailable && strings.Contains(got.body, `\"pg_dump\", a backup`)
	}, patience, again)
	w.await(3)
	endBackup()
	newer.ready()
	w.add(newer)
	w.await(5)
	lasts := time.Duration(cases.Of(0, 15, 60)) * time.Second
	for kills := 0; kills == 0 || time.Since(began) < lasts; kills++ {
		time.Sleep(rand.N(time.Second)) // the moment of the crash, whatever is under way
		w.lose(newer)
		w.await(3)
	}
	w.end()
	t.Logf("payments=%d cards=%d refunds=%d entries=%d starts=%d repeated=%d seconds=%.0f",
		len(w.payments), w.cards, w.refunds, w.entries, newer.Starts(), w.turned, time.Since(began).Seconds())

	require.Eventually(t, func() bool { return w.proven(t) }, patience, again, "a payment was not seen on the chain")
	agree(t, older, newer)
	require.True(t, strings.HasPrefix(newer.received(), fmt.Sprint(42*w.cards-10*w.refunds+42*w.entries, " ")), newer.received())
	told := newer.changes()
	require.Equal(t, told, older.changes())
	seen := make(map[string]bool)
	for _, change := range told {
		require.False(t, seen[change], change)
		seen[change] = true
	}
	w.audit(t)

	got, err := paid("yen", "jpy")(newer)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.status)
	agree(t, older, newer)

	older.Kill()
	older.launch()
	<-older.Ended()
	require.Contains(t, older.Log(), "the ledger was written by a newer version", "it knows of no version that only adds")
	got, err = refunded("yen", 4_200, "jpy")(newer)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, got.status)
}

// agree requires the same sums of both. The version before reads sums to which this one adds a moment after a commit.
func agree(t *testing.T, older, newer *instance) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, newer.received(), older.received()) }, patience, again)
}

// book opens the ledger beside the instances.
func (s *shop) book(t *testing.T) *ledger.Ledger {
	t.Helper()
	book, err := ledger.NewPostgres(s.dsn, time.Now)
	require.NoError(t, err)
	require.NoError(t, book.Open(t.Context()))
	t.Cleanup(func() { assert.NoError(t, book.Close()) })
	return book
}

// proven reports whether the chain is the evidence of every payment, and nothing else can become of one.
func (w *traffic) proven(t *testing.T) bool {
	var open int
	err := w.database().QueryRowContext(t.Context(), `
		SELECT (SELECT count(*) FROM intents WHERE evidence <> 'chain') + (SELECT count(*) FROM receipts WHERE status = 'seen')`).Scan(&open)
	return err == nil && open == 0
}

// audit requires that every payment that was answered stands in the books once, and nothing else.
func (w *traffic) audit(t *testing.T) {
	t.Helper()
	book := w.book(t)
	require.NoError(t, book.Check(t.Context()))
	receipts, err := book.Receipts(t.Context(), offerID, 0, 1_000_000)
	require.NoError(t, err)
	rows := make(map[string]int)
	for _, receipt := range receipts {
		require.Contains(t, []ledger.Status{ledger.StatusConfirmed, ledger.StatusRefunded}, receipt.Status)
		rows[receipt.Rail]++
	}
	require.Equal(t, map[string]int{"usdc": len(w.payments), "card": w.cards, "transfer": w.entries}, rows)
	require.Len(t, w.chain.TransfersTo(t, w.payee), len(w.payments))
	for _, key := range w.payments {
		intent, known, err := book.Intent(t.Context(), key)
		require.NoError(t, err)
		require.True(t, known)
		require.Equal(t, ledger.IntentSettled, intent.State)
	}
}

// TestAnInstanceThatMayNotWriteAnyMoreSettlesNothing when a newer version has changed more than it can know.
func TestAnInstanceThatMayNotWriteAnyMoreSettlesNothing(t *testing.T) {
	t.Parallel()
	s := openShop(t)
	i := s.instance(server.Released(t))
	i.launch()
	i.ready()
	pay, _ := s.payment(t, s.buyers(1)[0])
	settled := len(s.facilitator.Calls(payoffertest.CallSettle))
	writes := map[string]send{"payment": pay, "webhook": paid("one", "usd"), "entry": entered("INV-1")}

	db := s.database()
	_, err := db.Exec(`LOCK TABLE pay_offer_schema; UPDATE pay_offer_schema SET oldest = 99, version = 99`)
	require.NoError(t, err)
	for name, write := range writes {
		got, err := write(i)
		require.NoError(t, err)
		require.Equal(t, http.StatusServiceUnavailable, got.status, "%s: %s", name, got.body)
	}
	require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), settled)
	for path, status := range map[string]int{"/v1/quote": http.StatusPaymentRequired, "/v1/received": http.StatusOK} {
		got, err := i.ask(http.MethodGet, i.url+path, nil)
		require.NoError(t, err)
		require.Equal(t, status, got.status, path)
	}

	_, err = db.Exec(`UPDATE pay_offer_schema SET oldest = 6`)
	require.NoError(t, err)
	for name, write := range writes {
		got, err := write(i)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, got.status, "%s: %s", name, got.body)
	}
	i.Kill()
	require.Contains(t, i.Log(), "the ledger was written by a newer version, and takes nothing from this one, which knows schema ")
}
