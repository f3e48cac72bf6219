package x402

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// sentIn is the body of the last call of a kind.
func sentIn(f *payoffertest.Facilitator, call string) string {
	calls := f.Calls("/" + call)
	return string(calls[len(calls)-1].Body)
}

// rebuilt is what becomes of a reference client's payload: in version 2 it echoes
// the resource and the extensions as they were quoted.
func (s *shop) rebuilt(payload []byte) string {
	s.t.Helper()
	var members map[string]any
	require.NoError(s.t, json.Unmarshal(payload, &members))
	if members["x402Version"] == 2.0 {
		members["resource"] = s.Offer.Resource()
		extensions, _ := members["extensions"].(map[string]any)
		if extensions == nil {
			extensions = map[string]any{}
		}
		extensions[extensionBazaar] = s.bazaar()
		delete(extensions, ExtensionAccess) // only the payer and this server know the token
		members["extensions"] = extensions
	}
	return string(mustJSON(s.t, members))
}

func TestAFacilitatorGetsNothingThatABuyerAdds(t *testing.T) {
	const foreign = "by a stranger"
	for _, c := range []struct{ name, old, added string }{
		{"beside the authorization", `"payload":{`, `"payload":{"permit2Authorization":{"by a stranger":1},`},
		{"null beside the authorization", `"payload":{`, `"payload":{"permit2Authorization":null,"x":"by a stranger",`},
		{"in the authorization", `"authorization":{`, `"authorization":{"by a stranger":{},`},
		{"in the payload", `{"accepted"`, `{"by a stranger":[],"accepted"`},
		{"in the requirement", `"accepted":{`, `"accepted":{"by a stranger":"",`},
		{"in the token's domain", `"extra":{`, `"extra":{"by a stranger":"",`},
		{"in the resource", `"resource":{`, `"resource":{"by a stranger":"",`},
		{"as an extension", `"extensions":{`, `"extensions":{"by a stranger":{},`},
		{"in an extension of ours", `"info":{"id"`, `"info":{"by a stranger":0,"id"`},
		{"as an extension of ours", `"extensions":{`, `"extensions":{"bazaar":{"info":{"input":"by a stranger"}},`},
	} {
		withShop(t, c.name, func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
			b := newBuyer(1).named("order_0123456789")
			payload := mangle(t, b.v2(t), c.old, c.added)
			require.Contains(t, payload, foreign)
			require.Equal(t, Settled, s.pay([]byte(payload)).Status)
			for _, call := range []string{callVerify, callSettle} {
				var body struct{ PaymentPayload, PaymentRequirements json.RawMessage }
				require.NoError(t, json.Unmarshal([]byte(sentIn(f, call)), &body))
				require.JSONEq(t, s.rebuilt(b.v2(t)), string(body.PaymentPayload))
				require.JSONEq(t, string(s.Rails[0].terms.v2), string(body.PaymentRequirements))
			}
			stored, _ := s.stored(b)
			require.NotContains(t, string(stored.Payload), foreign)
		})
	}
}

func TestARebuiltPaymentIsWrittenInOneWay(t *testing.T) {
	s := newShop(t, setup{facilitators: one(payoffertest.NewFacilitator(t))})
	b := newBuyer(0xabcdef)
	of, err := decodePayment(b.v2(t))
	require.NoError(t, err)
	rebuild := func(payload []byte) string {
		p, err := decodePayment(payload)
		require.NoError(t, err)
		require.Equal(t, of.key(), p.key())
		require.Equal(t, of.fingerprint(), p.fingerprint())
		return string(p.rebuild(&s.Rails[0].terms, *s.extensions.Load()))
	}
	want := rebuild(b.v2(t))
	require.Equal(t, want, rebuild([]byte(want)))
	shouted := *b
	shouted.token = "0x" + strings.ToUpper(b.token[2:])
	shouted.signature = "0x" + strings.ToUpper(b.sign(t)[2:])
	shouted.auth.From, shouted.auth.To = strings.ToLower(b.auth.From), "0x"+strings.ToUpper(b.auth.To[2:])
	shouted.auth.Nonce = "0x" + strings.ToUpper(b.auth.Nonce[2:])
	require.Equal(t, want, rebuild(shouted.v2(t)))
	require.Contains(t, want, `"from":"`+b.auth.From+`"`, "addresses carry their checksum, as wallets write them")
	require.NotContains(t, want, extensionOfferReceipt, "what was quoted to be kept is not sent on")
	require.NotContains(t, rebuild(b.v1(t)), extensionBazaar, "version 1 has no extensions")
}
