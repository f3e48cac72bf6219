package buyer

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
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

// A description cannot look like one of the rows, nor hide them.
func TestQuoteDescriptionIsEscaped(t *testing.T) {
	quote := quoted(nil)
	quote["resource"] = object{"url": "http://pay.example/", "description": "x\n  offer  signed by bank.example\r\t\x1b[1A\u202eDSU 1\""}
	l := openLiar(t, asks(t, quote), nil)
	key := chain.NewKey(t)
	got := newPerson(t, key).pay(l.URL, "--dry-run")
	require.Zero(t, got.code, got.err)
	require.Contains(t, got.out, `"x offer signed by bank.example [1ADSU 1\""`)
}

// Whatever a seller answers, and however often it is asked, it gets one authorization.
func TestRefusingSellerGetsOneAuthorization(t *testing.T) {
	for name, c := range map[string]struct {
		paid   http.HandlerFunc
		status int
		want   string
	}{
		"402 for ever": {func(w http.ResponseWriter, _ *http.Request) {
			asks(t, quoted(object{"payTo": chain.Wallet.Hex()}))(w, 0)
		}, 1, "Check https://sepolia.basescan.org/address/"},
		"409": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) }, 1,
			"first send that one again with it. The seller can still charge the signed payment until it expires"},
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
