package web

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
)

func cents(n int64) *int64 { return &n }

// confirmed is one sum of money received on a rail.
func confirmed(rail string, level ledger.EvidenceLevel, cents int64) ledger.Total {
	return ledger.Total{
		BalanceKey: accounting.BalanceKey{Rail: rail, Classification: accounting.Classification{Status: ledger.StatusConfirmed, EvidenceLevel: level}},
		Sum:        accounting.Sum{Count: 1, Amount: cents * 10_000, USDCents: cents},
	}
}

func with(t ledger.Total, change func(*ledger.Total)) ledger.Total {
	change(&t)
	return t
}

func TestReceivedHidesPayer(t *testing.T) {
	w := newWorld(t)
	w.totals = []ledger.Total{confirmed("usdc", ledger.LevelChain, 42_00)}
	w.receipts = []ledger.Receipt{{
		ID: 5, ExternalID: "eip155:8453:0xabc:0", Rail: "usdc", Via: "x402", Status: ledger.StatusConfirmed,
		EvidenceLevel: ledger.LevelChain, Asset: "USDC", Amount: 42_000_000, USDCents: cents(42_00),
		Payer: "0xSecretPayer", OccurredAt: at.Unix(), Transaction: "0xabc",
	}, {ID: 4, ExternalID: "a:0", Rail: "btc", Status: ledger.StatusSeen, EvidenceLevel: ledger.LevelChain}}
	res := send(t, w.server(t), "GET", "/v1/received", "")
	require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	raw := read(t, res)
	require.NotContains(t, raw, "SecretPayer")
	for _, want := range []string{
		`"goalMet":true`, `"receivedUsd":42,`, `"receivedUsdDecimal":"42.00"`, `"observedAt":"2026-11-21T13:14:15Z"`,
		`"id":"eip155:8453:0xabc:0"`, `"amountAtomic":"42000000"`, `"evidence":"chain"`, `"amountUsd":null`, `"next":null`,
	} {
		require.Contains(t, raw, want)
	}
}

func TestReceivedJSONPaging(t *testing.T) {
	w := newWorld(t)
	for id := int64(25); id > 0; id-- {
		w.receipts = append(w.receipts, ledger.Receipt{ID: id, ExternalID: "r"})
	}
	s := w.server(t)
	var numbers []float64
	target := "/v1/received?limit=10"
	for target != "" {
		body := readJSON(t, send(t, s, "GET", target, ""))
		for _, r := range body["receipts"].([]any) {
			numbers = append(numbers, r.(map[string]any)["number"].(float64))
		}
		next, _ := body["next"].(string)
		require.True(t, next == "" || strings.HasPrefix(next, baseURL))
		target = strings.TrimPrefix(next, baseURL)
	}
	require.Len(t, numbers, 25)
	require.Equal(t, 25.0, numbers[0])
	require.Equal(t, 1.0, numbers[24])
	require.Len(t, readJSON(t, send(t, s, "GET", "/v1/received", ""))["receipts"], 20)
}

// Strangers who ask for old pages or for the feed leave processors and connections to those who pay.
func TestReportConcurrencyLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.older = make(chan struct{})
		s, slots := w.server(t), max(1, runtime.GOMAXPROCS(0)/2)
		for _, query := range []string{"?before=7", "?after=0"} {
			answers := make(chan *http.Response, slots+1)
			for range slots + 1 {
				go func() { answers <- send(t, s, "GET", "/v1/received"+query, "", "Accept", browser) }()
			}
			synctest.Wait()
			require.Empty(t, answers)
			require.Equal(t, 200, send(t, s, "GET", "/v1/received", "").StatusCode, "the newest page waits for none")
			waited := <-answers
			require.Equal(t, 503, waited.StatusCode, query)
			require.Equal(t, "5", waited.Header.Get("Retry-After"))
			for range slots {
				<-w.older
				require.Equal(t, 200, (<-answers).StatusCode)
			}
			go func() { <-w.older }()
			require.Equal(t, 200, send(t, s, "GET", "/v1/received"+query, "").StatusCode)
		}
	})
}

func TestReceivedRefusesInvalidQuery(t *testing.T) {
	s := newWorld(t).server(t)
	for _, query := range []string{"before=0", "before=-1", "before=x", "before=", "limit=0", "limit=101", "limit=x", "before=99999999999999999999",
		"after=-1", "after=x", "after=", "after=9", "after=0&before=1", "before=1&after=0", "after=1&after=2", "limit=5&limit=6", "after=0&limit=0", "after=0&limit=101",
		"after=99999999999999999999", "after=%zz", "limit=1.5", "after=1.", "after=1.0", "after=1.00000000000000000", "after=1.000000000000000g",
		"after=-1.0000000000000000", "after=.0000000000000000", "before=1.0000000000000000",
	} {
		res := send(t, s, "GET", "/v1/received?"+query, "")
		require.Equal(t, 400, res.StatusCode, query)
		require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
	}
	for query, want := range map[string]position{
		"":                         {limit: 20},
		"limit=100&before=1&other": {before: 1, limit: 100},
		"after=0":                  {feed: true, limit: 100},
		"after=0&limit=1&x=1&x=2":  {feed: true, limit: 1},
		"after=9.fffffffffffffffe": {feed: true, after: ledger.Bookmark{Seq: 9, Tag: -2}, limit: 100},
	} {
		at, ok := parsePosition(query)
		require.True(t, ok, query)
		require.Equal(t, want, at, query)
	}
}

func TestReceivedWithoutLedgerIs503(t *testing.T) {
	w := newWorld(t)
	for _, err := range []error{ledger.ErrNotOpen, errors.New("dial tcp secret-host: refused")} {
		w.err = err
		for _, c := range [][3]string{
			{"/v1/received", "*/*", "urn:pay-offer:problem:ledger-unavailable"},
			{"/v1/received", browser, "<h1>The receipts cannot be read now</h1>"},
			{"/v1/received?after=0", browser, "urn:pay-offer:problem:ledger-unavailable"},
		} {
			res := send(t, w.server(t), "GET", c[0], "", "Accept", c[1])
			require.Equal(t, 503, res.StatusCode)
			require.NotEmpty(t, res.Header.Get("Retry-After"))
			body := read(t, res)
			require.Contains(t, body, c[2])
			require.NotContains(t, body, "secret-host")
		}
	}
}

func TestReceivedErrorIsLoggedOnce(t *testing.T) {
	w, log := newWorld(t), new(bytes.Buffer)
	s := w.server(t)
	s.Logger = slog.New(slog.NewTextHandler(log, nil))
	for trouble := 1; trouble <= 2; trouble++ {
		w.err = ledger.ErrNotOpen
		for _, target := range []string{"/v1/received", "/v1/received", "/v1/received?after=0"} {
			require.Equal(t, 503, send(t, s, "GET", target, "").StatusCode)
		}
		require.Equal(t, trouble, strings.Count(log.String(), "receipts cannot be read"))
		w.err = nil
		require.Equal(t, 200, send(t, s, "GET", "/v1/received", "").StatusCode)
	}
}

func FuzzParsePosition(f *testing.F) {
	f.Add("after=0&limit=1")
	f.Add("before=1&limit=100")
	f.Add("after=%zz;")
	f.Add("after=7.0123456789abcdef")
	f.Fuzz(func(t *testing.T, query string) {
		at, ok := parsePosition(query)
		if !ok {
			require.Equal(t, position{}, at)
			return
		}
		require.True(t, at.limit >= 1 && at.limit <= maxReceipts)
		require.True(t, at.before >= 0 && at.after.Seq >= 0)
		require.False(t, at.before > 0 && at.feed)
	})
}

func TestReportClockOffset(t *testing.T) {
	w := newWorld(t)
	c := w.config()
	offset := -3599600 * time.Millisecond
	c.ClockOffset = func() time.Duration { return offset }
	s := must(New(c))(t)
	require.EqualValues(t, -3600, readJSON(t, send(t, s, "GET", "/v1/received", ""))["clockOffsetSeconds"])
	summary := must(s.Summary(t.Context()))(t)
	require.EqualValues(t, -3600, summary.ClockOffsetSeconds)
	offset = 0
	require.EqualValues(t, 0, readJSON(t, send(t, s, "GET", "/v1/received", ""))["clockOffsetSeconds"])
	require.EqualValues(t, 0, readJSON(t, send(t, newWorld(t).server(t), "GET", "/v1/received", ""))["clockOffsetSeconds"])
}

func TestFeedTransitions(t *testing.T) {
	w := newWorld(t)
	w.changes = []ledger.Transition{{
		Seq: 3, Tag: -1, Offer: "pay.example.org", Account: "secret account", Rail: "transfer", ExternalID: "inv.7 ä", Version: 1, To: ledger.StatusSeen,
		Amount: 4200, Cause: "operator", Note: "secret note", At: at.Unix(), ReceiptID: 9, Asset: "USD", EvidenceLevel: ledger.LevelManual,
		OccurredAt: at.Unix() - 60, After: accounting.Facts{Classification: accounting.Classification{Status: ledger.StatusSeen}},
	}, {
		Seq: 8, Tag: 0x1f, Rail: "usdc", ExternalID: "eip155:8453:0xab:0", ReceiptID: 7, Version: 2, From: ledger.StatusSeen, To: ledger.StatusConfirmed,
		Amount: 42_000_000, Refunded: 1, Via: "x402", Asset: "USDC", USDCents: cents(41_50), EvidenceLevel: ledger.LevelChain,
		Own: true, Testnet: true, Cause: "poll", At: at.Unix(), OccurredAt: at.Unix(),
		Before: accounting.Facts{Classification: accounting.Classification{Status: ledger.StatusSeen}},
		After:  accounting.Facts{Classification: accounting.Classification{Status: ledger.StatusConfirmed}},
	}}
	s := w.server(t)
	res := send(t, s, "GET", "/v1/received?after=0", "", "Accept", browser)
	require.Equal(t, "application/json", res.Header.Get("Content-Type"), "the feed is for programs alone")
	require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
	require.JSONEq(t, `{"offer": "pay.example.org", "cursor": "8.000000000000001f", "next": "https://pay.example.org/v1/received?after=8.000000000000001f&limit=100", "transitions": [{
		"seq": 3, "cursor": "3.ffffffffffffffff", "number": 9, "counted": false, "id": "transfer:inv%2E7%20%C3%A4:1:ffffffffffffffff", "rail": "transfer", "receipt": "inv.7 ä", "version": 1, "from": null, "to": "seen", "status": "seen", "change": "new",
		"amountAtomic": "4200", "refundedAtomic": "0", "amountUsd": null, "amountUsdDecimal": null, "asset": "USD",
		"evidence": "manual", "own": false, "testnet": false, "occurredAt": "2026-11-21T13:13:15Z", "cause": "operator", "at": "2026-11-21T13:14:15Z"
	}, {
		"seq": 8, "cursor": "8.000000000000001f", "number": 7, "counted": false, "id": "usdc:eip155:8453:0xab:0:2:000000000000001f", "rail": "usdc", "receipt": "eip155:8453:0xab:0", "version": 2, "from": "seen", "to": "confirmed", "status": "confirmed", "change": "status from seen to confirmed",
		"amountAtomic": "42000000", "refundedAtomic": "1", "amountUsd": 41.50, "amountUsdDecimal": "41.50", "asset": "USDC", "via": "x402",
		"evidence": "chain", "own": true, "testnet": true, "occurredAt": "2026-11-21T13:14:15Z", "cause": "poll", "at": "2026-11-21T13:14:15Z"
	}]}`, read(t, res))

	end := readJSON(t, send(t, s, "GET", "/v1/received?after=8.000000000000001f&limit=7", ""))
	require.Equal(t, map[string]any{
		"offer": "pay.example.org", "cursor": "8.000000000000001f", "next": baseURL + "/v1/received?after=8.000000000000001f&limit=7", "transitions": []any{},
	}, end, "there is always something to ask for next time")
	require.Len(t, readJSON(t, send(t, s, "GET", "/v1/received?after=0&limit=1", ""))["transitions"], 1)
}

func TestFeedUnknownCursorIs410(t *testing.T) {
	w := newWorld(t)
	w.err = ledger.ErrBookmark
	s := w.server(t)
	res := send(t, s, "GET", "/v1/received?after=4.00000000000000ff", "", "Accept", browser)
	require.Equal(t, 410, res.StatusCode)
	require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
	body := readJSON(t, res)
	require.Equal(t, "urn:pay-offer:problem:unknown-cursor", body["type"])
	require.Equal(t, "This cursor is no longer valid. Read again from after=0 and replace what you stored.", body["detail"])
}
