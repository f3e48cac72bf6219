package demo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// fixture is a facilitator and the payments that it gets.
type fixture struct {
	*testing.T
	handler http.Handler
	network offer.Network
	payee   string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	network := must(offer.LookupNetwork("base-sepolia"))(t)
	card, err := offer.NewCard("https://checkout.example/1", nil, 4200)
	require.NoError(t, err)
	rail := must(offer.NewUSDC("usdc", network, "0x52908400098527886E0F7030069857D2E4169EE7", 4200))(t)
	o := must(offer.New(offer.Terms{}, card, rail))(t)
	return &fixture{t, newFacilitator(func() *offer.Offer { return o }), network, rail.PayTo}
}

// sign is a payment of 42 USDC by a key that nobody has used.
func (f *fixture) sign(n offer.Network, to string, amount int64, until time.Time) x402.Authorized {
	f.Helper()
	key := must(crypto.GenerateKey())(f)
	return x402.Authorize(key, n, to, amount, until)
}

func (f *fixture) good() x402.Authorized {
	f.Helper()
	return f.sign(f.network, f.payee, 42_000_000, time.Now().Add(5*time.Minute))
}

// ask sends a payment in a version of x402 and returns the answer.
func (f *fixture) ask(call string, version int, paid x402.Authorized) (said map[string]any) {
	f.Helper()
	requirements := map[string]any{"scheme": "exact", "network": f.network.CAIP2(), "asset": f.network.USDC, "payTo": f.payee, "amount": "42000000"}
	if version == 1 {
		requirements["network"], requirements["maxAmountRequired"] = f.network.Name, requirements["amount"]
		delete(requirements, "amount")
	}
	return f.post(call, map[string]any{
		"x402Version": version, "paymentPayload": map[string]any{"x402Version": version, "payload": paid}, "paymentRequirements": requirements,
	})
}

func (f *fixture) post(call string, body any) (said map[string]any) {
	f.Helper()
	encoded := must(json.Marshal(body))(f)
	method := http.MethodPost
	if body == nil {
		method = http.MethodGet
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, httptest.NewRequest(method, call, strings.NewReader(string(encoded))))
	require.Equal(f, http.StatusOK, w.Code)
	require.NoError(f, json.Unmarshal(w.Body.Bytes(), &said))
	return said
}

func TestDemoFacilitatorSettlesOnce(t *testing.T) {
	b := newFixture(t)
	require.Contains(t, fmt.Sprint(b.post("/supported", nil)["kinds"]), b.network.CAIP2())
	hashes := map[any]bool{}
	for first, again := range map[int]int{1: 2, 2: 1} {
		paid := b.good()
		for range 2 { // who asks has not settled
			require.Equal(t, map[string]any{"isValid": true, "payer": paid.Authorization.From}, b.ask("/verify", first, paid))
		}
		settled := b.ask("/settle", first, paid)
		require.Equal(t, true, settled["success"])
		require.Len(t, settled["transaction"], 66)
		hashes[settled["transaction"]] = true
		for _, version := range []int{first, again} {
			require.Equal(t, reasonSpent, b.ask("/verify", version, paid)["invalidReason"])
			require.Equal(t, reasonSpent, b.ask("/settle", version, paid)["errorReason"])
		}
	}
	require.Len(t, hashes, 2)
}

func TestDemoFacilitatorRefusals(t *testing.T) {
	b := newFixture(t)
	mainnet := must(offer.LookupNetwork("base"))(t)
	soon := time.Now().Add(5 * time.Minute)
	other := "0x000000000000000000000000000000000000dEaD"
	change := func(change func(*x402.Authorized)) x402.Authorized {
		paid := b.good()
		change(&paid)
		return paid
	}
	for reason, payments := range map[string][]x402.Authorized{
		reasonSigned: {
			b.sign(mainnet, b.payee, 42_000_000, soon),
			change(func(paid *x402.Authorized) { paid.Authorization.Value = "1" }),
			change(func(paid *x402.Authorized) { paid.Authorization.From = other }),
			change(func(paid *x402.Authorized) { paid.Signature = "0x" }),
			change(func(paid *x402.Authorized) { paid.Signature = "0x" + strings.Repeat("11", 65) }),
			change(func(paid *x402.Authorized) { paid.Authorization.Nonce = "" }),
		},
		reasonPayee:   {b.sign(b.network, other, 42_000_000, soon)},
		reasonValue:   {b.sign(b.network, b.payee, 41_999_999, soon), b.sign(b.network, b.payee, 42_000_001, soon)},
		reasonLate:    {b.sign(b.network, b.payee, 42_000_000, time.Now()), b.sign(b.network, b.payee, 42_000_000, time.Now().Add(-time.Hour))},
		reasonPayload: {{}, change(func(paid *x402.Authorized) { paid.Authorization.ValidAfter = "x" })},
	} {
		for i, paid := range payments {
			for _, version := range []int{1, 2} {
				require.Equal(t, reason, b.ask("/verify", version, paid)["invalidReason"], "%d", i)
				require.Equal(t, reason, b.ask("/settle", version, paid)["errorReason"], "%d", i)
			}
		}
	}
	b.network = mainnet
	require.Equal(t, reasonNetwork, b.ask("/settle", 2, b.good())["errorReason"])
}
