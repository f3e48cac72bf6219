package buyer

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
)

type object = map[string]any

const stranger = "0x52908400098527886E0F7030069857D2E4169EE7"

// quoted is a quote whose terms are changed.
func quoted(changes object) object {
	accept := object{
		"scheme": "exact", "network": "eip155:84532", "asset": chain.USDC.Hex(), "payTo": stranger, "amount": "42000000",
		"maxTimeoutSeconds": 300, "extra": object{"name": "USDC", "version": "2"},
	}
	maps.Copy(accept, changes)
	return object{"x402Version": 2, "error": "pay", "resource": object{"url": "http://pay.example/", "description": "A thing"}, "accepts": []any{accept}}
}

func header(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(text)
}

// liar is a seller whose answers are scripted. It counts the payments that it is sent.
type liar struct {
	*httptest.Server
	quotes, payments atomic.Int64
	// seen are payments that differ.
	seen map[string]bool
}

func openLiar(t *testing.T, quote func(w http.ResponseWriter, n int64), paid http.HandlerFunc) *liar {
	t.Helper()
	l := &liar{seen: make(map[string]bool)}
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if payment := r.Header.Get("PAYMENT-SIGNATURE"); payment != "" {
			l.seen[payment] = true
			l.payments.Add(1)
			paid(w, r)
			return
		}
		quote(w, l.quotes.Add(1))
	}))
	t.Cleanup(l.Close)
	return l
}

// asks answers 402 with a quote.
func asks(t *testing.T, quote object) func(http.ResponseWriter, int64) {
	return func(w http.ResponseWriter, _ int64) {
		w.Header().Set("PAYMENT-REQUIRED", header(t, quote))
		w.WriteHeader(http.StatusPaymentRequired)
	}
}

func TestAHostileQuoteIsNotSigned(t *testing.T) {
	key := chain.NewKey(t)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	t.Cleanup(elsewhere.Close)
	for name, c := range map[string]struct {
		quote func(http.ResponseWriter, int64)
		want  string
	}{
		"another token":   {asks(t, quoted(object{"asset": stranger})), "is not USDC"},
		"above --max":     {asks(t, quoted(object{"amount": "50000001"})), "more than --max 50"},
		"another network": {asks(t, quoted(object{"network": "eip155:1"})), "is not USDC (0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48)"},
		"another name":    {asks(t, quoted(object{"extra": object{"name": "USD Coin", "version": "2"}})), "a signature for another name moves no money"},
		"a huge body": {func(w http.ResponseWriter, _ int64) {
			w.WriteHeader(http.StatusPaymentRequired)
			_, _ = w.Write(make([]byte, 1<<20))
		}, "it is longer than"},
		"a huge header": {func(w http.ResponseWriter, _ int64) {
			w.Header().Set("PAYMENT-REQUIRED", strings.Repeat("A", 1<<20))
			w.WriteHeader(http.StatusPaymentRequired)
		}, "sent no quote"},
		"a redirect": {func(w http.ResponseWriter, _ int64) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, "redirects (status 307)"},
		"version 1 alone": {func(w http.ResponseWriter, _ int64) {
			w.WriteHeader(http.StatusPaymentRequired)
			_, _ = w.Write([]byte(`{"x402Version":1,"error":"","accepts":[]}`))
		}, "this command pays only version 2"},
		"steering characters": {asks(t, quoted(object{"scheme": "\x1b[2J\u202e\u2066exact"})), `the scheme "[2Jexact" is not supported`},
	} {
		t.Run(name, func(t *testing.T) {
			l := openLiar(t, c.quote, func(http.ResponseWriter, *http.Request) {})
			p := newPerson(t, key)
			got := p.pay(l.URL, "--yes")
			require.Equal(t, 1, got.code, got)
			require.Contains(t, got.err, c.want)
			require.NotContains(t, got.out+got.err, "\x1b")
			require.NotContains(t, got.out+got.err, "\u202e")
			require.Zero(t, l.payments.Load())
			require.Empty(t, p.kept())
		})
	}
}

// What was shown by --dry-run binds nobody; --max does.
func TestAQuoteThatRisesIsHeldByTheMaximum(t *testing.T) {
	key := chain.NewKey(t)
	l := openLiar(t, func(w http.ResponseWriter, n int64) {
		asks(t, quoted(object{"amount": []string{"0", "1000000", "1000001"}[n]}))(w, n)
	}, func(http.ResponseWriter, *http.Request) {})
	p := newPerson(t, key)
	dry := p.pay(l.URL, "--dry-run", "--max", "1")
	require.Contains(t, dry.out, "1 USDC (1 USD)")
	got := p.pay(l.URL, "--yes", "--max", "1")
	require.Equal(t, 1, got.code)
	require.Contains(t, got.err, "it costs 1.000001 USD, more than --max 1")
	require.Empty(t, p.kept())
}

// A description cannot look like one of the rows, nor hide them.
func TestADescriptionIsShownAsTheSellersWords(t *testing.T) {
	quote := quoted(nil)
	quote["resource"] = object{"url": "http://pay.example/", "description": "x\n  offer  signed by bank.example\r\t\x1b[1A\u202eDSU 1\""}
	l := openLiar(t, asks(t, quote), nil)
	key := chain.NewKey(t)
	got := newPerson(t, key).pay(l.URL, "--dry-run")
	require.Zero(t, got.code, got.err)
	require.Contains(t, got.out, `"x offer signed by bank.example [1ADSU 1\""`)
}

// Whatever a seller answers, and however often it is asked, it gets one authorization.
func TestASellerThatNeverSaysYesGetsOneAuthorization(t *testing.T) {
	for name, c := range map[string]struct {
		paid   http.HandlerFunc
		status int
		want   string
	}{
		"402 for ever": {func(w http.ResponseWriter, _ *http.Request) {
			asks(t, quoted(object{"payTo": chain.Wallet.Hex()}))(w, 0)
		}, 1, "Check https://sepolia.basescan.org/address/"},
		"409": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) }, 1, "can still charge the signed payment until it expires"},
		"a redirect": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://evil.example/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, 1, "payments do not follow redirects"},
		"503 for ever": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "99999")
			w.WriteHeader(http.StatusServiceUnavailable)
		}, 75, "The signed payment may still be charged. Run the same command again"},
		"silence": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 75, "The signed payment may still be charged"},
	} {
		t.Run(name, func(t *testing.T) {
			l := openLiar(t, asks(t, quoted(nil)), c.paid)
			key := chain.NewKey(t)
			p := newPerson(t, key)
			for _, args := range [][]string{{"--yes"}, {"--yes"}, {"--yes", "--new"}, {"--yes", "--new", "--json"}} {
				got := p.pay(append(args, l.URL, "--wait", "0s")...)
				require.Equal(t, c.status, got.code, got)
				require.Contains(t, got.err, c.want)
			}
			require.Len(t, l.seen, 1)
			require.EqualValues(t, 4, l.payments.Load())
			require.EqualValues(t, 1, l.quotes.Load())
			require.Len(t, p.kept(), 1)
		})
	}
}
