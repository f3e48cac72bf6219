package command

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/buyer"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// payerKey is a well-known key of test chains, and payerAddress its account.
const (
	payerKey     = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"
	payerAddress = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
)

// openStall starts a seller of 42 USD who answers payments so, and counts them.
func openStall(t *testing.T, paid http.HandlerFunc) (url string, payments *int) {
	t.Helper()
	payments = new(int)
	var stall http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { stall.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	stall = newStall(server.URL, payments, paid)
	return server.URL + "/buy", payments
}

func newStall(base string, payments *int, paid http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(x402.HeaderSignature) != "" {
			*payments++
			paid(w, r)
			return
		}
		w.Header().Set(x402.HeaderRequired, x402.EncodeHeader(json.RawMessage(`{"x402Version":2,"resource":{"url":"`+base+
			`/buy","description":"A thing"},"accepts":[{"scheme":"exact","network":"eip155:8453","asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",`+
			`"payTo":"0x52908400098527886E0F7030069857D2E4169EE7","amount":"42000000","maxTimeoutSeconds":300,`+
			`"extra":{"name":"USD Coin","version":"2","paymentFlow":"upfront"}}]}`)))
		w.WriteHeader(http.StatusPaymentRequired)
	})
}

// settled answers that the payment was settled.
func settled(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set(x402.HeaderResponse, x402.EncodeHeader(x402.SettleResponse{
		Success: true, Transaction: "0x" + strings.Repeat("1", 64), Network: "eip155:8453", Payer: payerAddress, Amount: "42000000",
		Extensions: map[string]json.RawMessage{"offer-receipt": json.RawMessage(`{"info":{"receipt":{"format":"jws","signature":"` + signedReceipt + `"}}}`)},
	}))
}

// signedReceipt is a JWS in the form of a signed receipt.
const signedReceipt = "eyJhIjoxfQ.eyJiIjoyfQ.c2ln"

func TestCommandPayStateNeedsAbsolutePath(t *testing.T) {
	t.Setenv(keyVariable, strings.Repeat("11", 32))
	require.ErrorContains(t, errorOf(pay(t, "payments", "http://127.0.0.1:9/", "--yes")), "is not an absolute path")
	require.NoDirExists(t, "payments")
}

// pay runs the command with a folder of its own.
func pay(t *testing.T, state string, args ...string) (string, error) {
	t.Helper()
	out, err := execute(t, payCommand(), append(args, "--state", state, "--wait", "0s")...)
	require.NotContains(t, strings.ToLower(out+fmt.Sprint(err)), payerKey[2:12], "the key")
	return out, err
}

func TestCommandPayDryRun(t *testing.T) {
	t.Setenv(keyVariable, "not even a key")
	url, payments := openStall(t, settled)
	out := must(pay(t, t.TempDir(), url, "--dry-run"))(t)
	require.Equal(t, `  resource     "`+url+`"
  description  "A thing"
  method       GET
  amount       42 USDC (42 USD)
  payee        0x52908400098527886E0F7030069857D2E4169EE7
  network      base (eip155:8453), real money
`, out)
	require.Zero(t, *payments)
}

func TestCommandPayPaysOnceUnlessNew(t *testing.T) {
	url, payments := openStall(t, settled)
	key, state := filepath.Join(t.TempDir(), "key"), t.TempDir()
	require.NoError(t, os.WriteFile(key, []byte(payerKey+"\n"), 0o600))
	for n, want := range []string{"payer        " + payerAddress, "This was paid before. Nothing is sent now; --new buys again."} {
		out, err := pay(t, state, url, "--key-file", key, "--yes")
		require.NoError(t, err, n)
		require.Contains(t, out, want)
		require.Contains(t, out, "Paid 42 USDC to 0x52908400098527886E0F7030069857D2E4169EE7")
		require.Contains(t, out, "https://basescan.org/tx/0x1111")
		require.Equal(t, 1, *payments)
	}
	out := must(pay(t, state, url, "--key-file", key, "--yes", "--new", "--json"))(t)
	require.Equal(t, 2, *payments)
	_, printed, found := strings.Cut(out, "{") // the rest went to the standard error
	require.True(t, found)
	var got struct{ Status, AmountUSD, Payer, Transaction string }
	require.NoError(t, json.Unmarshal([]byte("{"+printed), &got))
	require.Equal(t, []string{"paid", "42", payerAddress}, []string{got.Status, got.AmountUSD, got.Payer})
	require.Contains(t, got.Transaction, "0x1111")
}

func TestCommandPayNeedsKeyAndConfirmation(t *testing.T) {
	url, payments := openStall(t, settled)
	readable := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(readable, []byte(payerKey), 0o600))
	require.NoError(t, os.Chmod(readable, 0o644))
	for name, c := range map[string]struct {
		key  string
		args []string
		want string
	}{
		"no key":           {"", []string{"--yes"}, "there is no key to pay with: set PAY_OFFER_KEY, or write for example --key-file"},
		"no good key":      {payerKey[:40], []string{"--yes"}, "64 hexadecimal digits"},
		"others' file":     {payerKey, []string{"--yes", "--key-file", readable}, "chmod 600"},
		"a key as a file":  {payerKey, []string{"--yes", "--key-file", payerKey}, "cannot be opened"},
		"no terminal":      {payerKey, nil, "there is no terminal to ask on"},
		"too expensive":    {payerKey, []string{"--yes", "--max", "41.999999"}, "more than --max 41.999999"},
		"no amount":        {payerKey, []string{"--yes", "--max", "0x"}, "is not an amount of US dollars"},
		"no maximum":       {payerKey, []string{"--yes", "--max", "0"}, "is not an amount of US dollars"},
		"no such network":  {payerKey, []string{"--yes", "--network", "bitcoin"}, `unknown network "bitcoin"`},
		"another network":  {payerKey, []string{"--yes", "--network", "polygon"}, "the seller is paid on Base, and --network is polygon"},
		"another method":   {payerKey, []string{"--yes", "--method", "PUT"}, "GET or POST"},
		"a key as the URL": {payerKey, []string{"--yes", payerKey}, `unexpected argument "http`},
	} {
		t.Run(name, func(t *testing.T) {
			if c.key != "" {
				t.Setenv(keyVariable, c.key)
			}
			state := t.TempDir()
			require.ErrorContains(t, errorOf(pay(t, state, append(c.args, url)...)), c.want)
			kept := must(filepath.Glob(filepath.Join(state, "*", "*.json")))(t)
			require.Empty(t, kept)
		})
	}
	checkout := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusPaymentRequired)
		_, _ = w.Write([]byte(`{"fallback":{"url":"https://buy.example/1"}}`))
	}))
	defer checkout.Close()
	err := errorOf(pay(t, t.TempDir(), checkout.URL)) // no key helps there
	require.EqualError(t, err, `the seller takes no x402 payment; a person can pay at "https://buy.example/1"`)
	require.Zero(t, *payments)
}

func TestCommandPayExitStatusAndJSON(t *testing.T) {
	t.Setenv(keyVariable, payerKey)
	for name, c := range map[string]struct {
		paid   http.HandlerFunc
		args   []string
		status int
		want   string
	}{
		"paid":          {settled, nil, 0, `"status":"paid"`},
		"quoted":        {settled, []string{"--dry-run"}, 0, `"status":"quoted"`},
		"too expensive": {settled, []string{"--max", "1"}, 1, `"status":"not_paid","reason":"not paid: it costs 42 USD`},
		"refused":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPaymentRequired) }, nil, 1, `"status":"refused"`},
		"not known":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, nil, exitOpen, `"status":"open"`},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := openStall(t, c.paid)
			out, err := pay(t, t.TempDir(), append(c.args, url, "--yes", "--json")...)
			require.Contains(t, out, c.want)
			require.Equal(t, name == "paid", strings.Contains(out, `"signedReceipt":"`+signedReceipt+`"`))
			if c.status == 0 {
				require.NoError(t, err)
			} else {
				require.Error(t, err)
			}
		})
	}
	for err, want := range map[error]int{
		nil: 0, errNoTerminal: 1, fmt.Errorf("x: %w", buyer.ErrOpen): exitOpen, buyer.ErrBusy: exitOpen,
	} {
		require.Equal(t, want, exitStatus(err))
	}
}

func TestCommandPayWithoutTransaction(t *testing.T) {
	t.Setenv(keyVariable, payerKey)
	url, _ := openStall(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a page")) })
	out := must(pay(t, t.TempDir(), url, "--yes"))(t)
	require.NotContains(t, out, "Paid 42")
	require.Contains(t, out, "The seller answered (status 200) and names no transaction")
	require.Contains(t, out, ".answer")
}

// openDemo starts a seller of 42 USD on a network, which says whether it is a demo, and
// settles payments or is never ready.
func openDemo(t *testing.T, network string, demo bool, settles bool) (url string, payers *[]string) {
	t.Helper()
	n := must(offer.LookupNetwork(network))(t)
	payers = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if header := r.Header.Get(x402.HeaderSignature); header != "" {
			payload, err := x402.DecodeHeader(header)
			assert.NoError(t, err)
			var in struct{ Payload x402.Authorized }
			assert.NoError(t, json.Unmarshal(payload, &in))
			assert.True(t, in.Payload.Signs(n))
			payer := in.Payload.Authorization.From
			*payers = append(*payers, payer)
			if !settles {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.Header().Set(x402.HeaderResponse, x402.EncodeHeader(x402.SettleResponse{
				Success: true, Transaction: "0x" + strings.Repeat("1", 64), Network: n.CAIP2(), Payer: payer, Amount: "42000000",
			}))
			return
		}
		if demo {
			w.Header().Set("Pay-Offer-Demo", "1")
		}
		w.Header().Set(x402.HeaderRequired, x402.EncodeHeader(map[string]any{
			"x402Version": 2, "resource": map[string]string{"url": url}, "accepts": []any{map[string]any{
				"scheme": "exact", "network": n.CAIP2(), "asset": n.USDC, "payTo": "0x52908400098527886E0F7030069857D2E4169EE7", "amount": "42000000",
				"maxTimeoutSeconds": 300, "extra": map[string]string{"name": n.TokenName, "version": n.TokenVersion, "paymentFlow": "upfront"},
			}},
		}))
		w.WriteHeader(http.StatusPaymentRequired)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1/sponsor", payers
}

func TestCommandPayDemoUsesThrowawayKey(t *testing.T) {
	t.Setenv(keyVariable, payerKey)
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	url, payers := openDemo(t, "base-sepolia", true, true)
	for range 2 {
		out := must(execute(t, payCommand(), url, "--demo"))(t)
		require.Contains(t, out, "Paid 42 pretend USDC")
		require.Contains(t, out, "there is no transaction")
		require.NotContains(t, out, "0x1111")
		require.NotContains(t, out, "proof")
		require.Contains(t, out, (*payers)[len(*payers)-1])
		require.NotContains(t, out, "basescan", "there is no such transaction")
		require.NotContains(t, out, os.Getenv("TMPDIR"), "there is no such file any more")
	}
	require.Len(t, *payers, 2, "each purchase is one of its own")
	require.NotEqual(t, (*payers)[0], (*payers)[1])
	require.NotContains(t, *payers, payerAddress)
	for _, folder := range []string{os.Getenv("TMPDIR"), os.Getenv("XDG_DATA_HOME")} {
		kept := must(os.ReadDir(folder))(t)
		require.Empty(t, kept, "nothing is kept")
	}
}

func TestCommandPayDemoRefusesRealOffers(t *testing.T) {
	url, payers := openDemo(t, "base", true, true)
	test, _ := openDemo(t, "base-sepolia", true, true)
	other, others := openDemo(t, "base-sepolia", false, false)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"real money":     {[]string{url}, "the seller asks for real money"},
		"no demo":        {[]string{other}, "not paid: this server is not a demo"},
		"another host":   {[]string{"https://pay.example.org/v1/sponsor"}, "only servers on this machine"},
		"a key":          {[]string{test, "--key-file", "payer.key"}, "leave out --key-file"},
		"a folder":       {[]string{test, "--state", t.TempDir()}, "leave out --state"},
		"more than that": {[]string{test, "--max", "41"}, "more than --max 41"},
	} {
		_, err := execute(t, payCommand(), append(c.args, "--demo")...)
		require.ErrorContains(t, err, c.want, name)
		require.Equal(t, 1, exitStatus(err))
	}
	require.Empty(t, *payers)
	require.Empty(t, *others, "nothing was signed")
}

func TestCommandPayDemoNotReady(t *testing.T) {
	url, payers := openDemo(t, "base-sepolia", true, false)
	out, err := execute(t, payCommand(), url, "--demo", "--wait", "0s")
	require.ErrorContains(t, err, "not paid: the demo refused the payment of test money")
	require.Equal(t, 1, exitStatus(err))
	require.NotContains(t, out, "You may have been charged")
	require.Len(t, *payers, 1)
}
