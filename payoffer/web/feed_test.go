package web

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

func TestTheFeedTellsWhatBecameOfAReceipt(t *testing.T) {
	w := newWorld(t)
	w.changes = []ledger.Transition{{
		Seq: 3, Tag: -1, Offer: "pay.example.org", Account: "secret account", Rail: "transfer", ExternalID: "inv.7 ä", Version: 1, To: ledger.StatusSeen,
		Amount: 4200, Cause: "operator", Note: "secret note", At: at.Unix(), ReceiptID: 9, Asset: "USD", EvidenceLevel: ledger.LevelManual,
		OccurredAt: at.Unix() - 60, After: accounting.Facts{Standing: accounting.Standing{Status: ledger.StatusSeen}},
	}, {
		Seq: 8, Tag: 0x1f, Rail: "usdc", ExternalID: "eip155:8453:0xab:0", ReceiptID: 7, Version: 2, From: ledger.StatusSeen, To: ledger.StatusConfirmed,
		Amount: 42_000_000, Refunded: 1, Via: "x402", Asset: "USDC", USDCents: cents(41_50), EvidenceLevel: ledger.LevelChain,
		Own: true, Testnet: true, Cause: "poll", At: at.Unix(), OccurredAt: at.Unix(),
		Before: accounting.Facts{Standing: accounting.Standing{Status: ledger.StatusSeen}},
		After:  accounting.Facts{Standing: accounting.Standing{Status: ledger.StatusConfirmed}},
	}}
	s := w.server(t)
	res := send(t, s, "GET", "/v1/received?after=0", "", "Accept", browser)
	require.Equal(t, "application/json", res.Header.Get("Content-Type"), "the feed is for programs alone")
	require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	require.JSONEq(t, `{"offer": "pay.example.org", "cursor": "8.000000000000001f", "last": 8, "next": "https://pay.example.org/v1/received?after=8.000000000000001f&limit=100", "transitions": [{
		"seq": 3, "cursor": "3.ffffffffffffffff", "number": 9, "counted": false, "id": "transfer:inv%2E7%20%C3%A4:1:ffffffffffffffff", "rail": "transfer", "receipt": "inv.7 ä", "version": 1, "from": null, "to": "seen", "status": "seen", "change": "new",
		"amountAtomic": "4200", "refundedAtomic": "0", "amountUsd": null, "amountUsdDecimal": null, "asset": "USD",
		"evidence": "manual", "own": false, "testnet": false, "occurredAt": "2026-11-21T13:13:15Z", "cause": "operator", "at": "2026-11-21T13:14:15Z"
	}, {
		"seq": 8, "cursor": "8.000000000000001f", "number": 7, "counted": false, "id": "usdc:eip155:8453:0xab:0:2:000000000000001f", "rail": "usdc", "receipt": "eip155:8453:0xab:0", "version": 2, "from": "seen", "to": "confirmed", "status": "confirmed", "change": "status from seen to confirmed",
		"amountAtomic": "42000000", "refundedAtomic": "1", "amountUsd": 41.50, "amountUsdDecimal": "41.50", "asset": "USDC", "via": "x402",
		"evidence": "chain", "own": true, "testnet": true, "occurredAt": "2026-11-21T13:14:15Z", "cause": "poll", "at": "2026-11-21T13:14:15Z"
	}]}`, read(t, res))

	for _, after := range []string{"8", "8.000000000000001f"} {
		end := readJSON(t, send(t, s, "GET", "/v1/received?after="+after+"&limit=7", ""))
		require.Equal(t, map[string]any{
			"offer": "pay.example.org", "cursor": "8.000000000000001f", "last": 8.0, "next": baseURL + "/v1/received?after=8.000000000000001f&limit=7", "transitions": []any{},
		}, end, "there is always something to ask for next time, also for a reader that kept the number alone")
	}
	between := readJSON(t, send(t, s, "GET", "/v1/received?after=9", ""))
	require.Equal(t, "9", between["cursor"], "another offer's change")
	require.Len(t, readJSON(t, send(t, s, "GET", "/v1/received?after=0&limit=1", ""))["transitions"], 1)
}

// openLedger is an empty ledger with a card account of each offer.
func openLedger(t testing.TB, offers ...string) *ledger.Ledger {
	t.Helper()
	book := ledger.NewSQLite(filepath.Join(t.TempDir(), "ledger.db"), func() time.Time { return at })
	require.NoError(t, book.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	for _, id := range offers {
		require.NoError(t, book.Register(t.Context(), ledger.Account{Offer: id, ID: "stripe/" + id, Rail: "card"}))
	}
	return book
}

// cardPayment is one of 42 USD.
func cardPayment(offerID string, n int, state ledger.Status) ledger.Sighting {
	return ledger.Sighting{
		Offer: offerID, Account: "stripe/" + offerID, Rail: "card", ExternalID: fmt.Sprintf("pi_%d", n), Asset: "USD", Amount: 42_00,
		USDCents: cents(42_00), State: state, EvidenceLevel: ledger.LevelSigned, OccurredAt: at.Unix(), Cause: "webhook",
	}
}

// The changes of two offers are written at once, by several writers, while one
// of the offers is read.
func TestAReaderOfTheFeedMissesNothingThatIsWrittenMeanwhile(t *testing.T) {
	const writers, payments = 4, 25
	w := newWorld(t)
	book := openLedger(t, w.offer.ID, "another.example")
	c := w.config()
	c.Receipts = book
	s, err := New(c)
	require.NoError(t, err)

	var work sync.WaitGroup
	for writer := range writers {
		work.Go(func() {
			for n := range payments {
				for _, state := range []ledger.Status{ledger.StatusSeen, ledger.StatusConfirmed} {
					id := writer*payments + n
					_, err := book.Record(t.Context(), nil, cardPayment(w.offer.ID, id, state), cardPayment("another.example", id, state))
					if err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	written := make(chan struct{})
	go func() { work.Wait(); close(written) }()

	versions, last := map[string]int64{}, 0.0
	for target, over := "/v1/received?after=0&limit=7", false; ; {
		select {
		case <-written:
			over = true
		default:
		}
		page := readJSON(t, send(t, s, "GET", target, ""))
		changes := page["transitions"].([]any)
		for _, change := range changes {
			change := change.(map[string]any)
			require.Greater(t, change["seq"], last, "in order, and none twice")
			last = change["seq"].(float64)
			receipt := change["receipt"].(string)
			versions[receipt]++
			require.EqualValues(t, versions[receipt], change["version"], "none is left out")
		}
		require.Equal(t, last, page["last"])
		target = strings.TrimPrefix(page["next"].(string), baseURL)
		if over && len(changes) == 0 {
			break
		}
	}
	require.Len(t, versions, writers*payments, "the other offer's are not told")
	for receipt, version := range versions {
		require.EqualValues(t, 2, version, receipt)
	}
}

// Whatever the ledger knows of a person stays there.
func TestNothingPersonalIsPublished(t *testing.T) {
	w := newWorld(t)
	book := openLedger(t, w.offer.ID)
	payment := cardPayment(w.offer.ID, 1, ledger.StatusConfirmed)
	payment.Payer, payment.Note, payment.Evidence = "0xSecretPayer", "Secret note", []byte(`{"secret":"evidence"}`)
	payment.EvidenceLevel = ledger.LevelManual
	_, err := book.Record(t.Context(), nil, payment)
	require.NoError(t, err)
	c := w.config()
	c.Receipts = book
	s, err := New(c)
	require.NoError(t, err)
	for _, target := range []string{"/v1/received", "/v1/received?after=0"} {
		for _, accept := range []string{"*/*", browser} {
			body := read(t, send(t, s, "GET", target, "", "Accept", accept))
			require.Contains(t, body, "pi_1")
			require.NotContains(t, strings.ToLower(body), "secret")
			require.NotContains(t, body, "stripe/"+w.offer.ID, strconv.Quote(target))
		}
	}
}

// An older copy of the ledger is put back under a reader, and numbers are used
// again: of what a reader may have kept, only a number that the older copy has,
// too, cannot be told from one of its own.
func TestAReaderOfTheFeedIsToldThatAnOlderCopyWasPutBack(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "ledger.db")
	book := func() *ledger.Ledger {
		l := ledger.NewSQLite(file, func() time.Time { return at })
		require.NoError(t, l.Open(t.Context()))
		require.NoError(t, l.Register(t.Context(), ledger.Account{Offer: w.offer.ID, ID: "stripe/" + w.offer.ID, Rail: "card"}))
		return l
	}
	record := func(l *ledger.Ledger, payments ...int) {
		for _, n := range payments {
			_, err := l.Record(t.Context(), nil, cardPayment(w.offer.ID, n, ledger.StatusConfirmed))
			require.NoError(t, err)
		}
	}
	serve := func(l *ledger.Ledger) *Server {
		c := w.config()
		c.Receipts = l
		s, err := New(c)
		require.NoError(t, err)
		return s
	}

	l := book()
	record(l, 1, 2)
	early := readJSON(t, send(t, serve(l), "GET", "/v1/received?after=0", ""))
	require.NoError(t, l.Close())
	older, err := os.ReadFile(file)
	require.NoError(t, err)

	l = book()
	record(l, 3, 4)
	late := readJSON(t, send(t, serve(l), "GET", "/v1/received?after="+early["cursor"].(string), ""))
	require.Len(t, late["transitions"], 2)
	require.NoError(t, l.Close())

	require.NoError(t, os.WriteFile(file, older, 0o600))
	l = book()
	defer func() { require.NoError(t, l.Close()) }()
	s := serve(l)
	refused := func(query string) {
		t.Helper()
		res := send(t, s, "GET", "/v1/received?"+query, "", "Accept", browser)
		require.Equal(t, 410, res.StatusCode, query)
		require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
		body := readJSON(t, res)
		require.Equal(t, "urn:pay-offer:problem:unknown-cursor", body["type"])
		require.Contains(t, body["detail"], baseURL+"/v1/received?after=0&limit=100")
	}
	cursor := late["cursor"].(string)
	lost := late["transitions"].([]any)[0].(map[string]any)["cursor"].(string)
	for _, query := range []string{"after=" + cursor, "after=" + lost, "after=4", "after=999", "after=999." + cursor[len("4."):]} {
		refused(query)
	}
	record(l, 5, 4, 3) // and more than there was
	refused("after=" + cursor)
	refused("after=" + lost)
	refused("after=999")

	all := readJSON(t, send(t, s, "GET", "/v1/received?after=0", ""))
	require.Len(t, all["transitions"], 5)
	require.NotEqual(t, cursor, all["transitions"].([]any)[3].(map[string]any)["cursor"])
	for _, known := range []string{early["cursor"].(string), "2"} {
		require.Len(t, readJSON(t, send(t, s, "GET", "/v1/received?after="+known, ""))["transitions"], 3, "what was read before the copy was made still holds")
	}
}
