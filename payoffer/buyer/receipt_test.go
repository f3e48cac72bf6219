package buyer

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

func TestAReceiptIsThatOfThisPaymentOrDoesNotHold(t *testing.T) {
	stranger := openSeller(t)
	for name, c := range map[string]struct {
		change func(*x402.SettleResponse, *x402.ReceiptPayload)
		// want is what is said, verified and wrong what it comes to.
		want            string
		verified, wrong bool
		fault           string
	}{
		"as it should be": {nil, "signed by", true, false, ""},
		"in lower case": {func(r *x402.SettleResponse, p *x402.ReceiptPayload) {
			r.Payer, p.Payer = strings.ToLower(r.Payer), strings.ToLower(p.Payer)
		}, "signed by", true, false, ""},
		"with the transaction": {func(_ *x402.SettleResponse, p *x402.ReceiptPayload) { p.Transaction = transaction }, "signed by", true, false, ""},
		"another payer signed": {func(_ *x402.SettleResponse, p *x402.ReceiptPayload) { p.Payer = payee }, "another payer or network", false, true, ""},
		"another network":      {func(_ *x402.SettleResponse, p *x402.ReceiptPayload) { p.Network = "eip155:8453" }, "another payer or network", false, true, ""},
		"another transaction":  {func(_ *x402.SettleResponse, p *x402.ReceiptPayload) { p.Transaction = "0x22" }, "another transaction", false, true, ""},
		"an old one":           {func(_ *x402.SettleResponse, p *x402.ReceiptPayload) { p.IssuedAt -= 600 }, "older than this payment", false, true, ""},
		"one of tomorrow":      {func(_ *x402.SettleResponse, p *x402.ReceiptPayload) { p.IssuedAt += 86400 }, "in the future", false, true, ""},
		"another host":         {func(_ *x402.SettleResponse, p *x402.ReceiptPayload) { p.ResourceURL = "https://evil.example/" }, "proves nothing about", false, false, ""},
		"unsigned":             {func(r *x402.SettleResponse, _ *x402.ReceiptPayload) { r.Extensions = map[string]json.RawMessage{} }, "not signed", false, false, ""},
		"signed by a stranger": {func(r *x402.SettleResponse, p *x402.ReceiptPayload) { r.Extensions = receiptBy(stranger, p) }, "proves nothing about", false, false, ""},
		"an offer": {func(r *x402.SettleResponse, p *x402.ReceiptPayload) {
			r.Extensions = map[string]json.RawMessage{"offer-receipt": json.RawMessage(`{"info":{"receipt":{"format":"jws","signature":"eyJ.e30.AA"}}}`)}
		}, "cannot be read", false, true, ""},
		"says another payer":       {func(r *x402.SettleResponse, _ *x402.ReceiptPayload) { r.Payer = payee }, "signed by", true, false, "another payer"},
		"says another network":     {func(r *x402.SettleResponse, _ *x402.ReceiptPayload) { r.Network = "eip155:1" }, "signed by", true, false, "another network"},
		"says another amount":      {func(r *x402.SettleResponse, _ *x402.ReceiptPayload) { r.Amount = "1" }, "signed by", true, false, "another amount"},
		"says no transaction":      {func(r *x402.SettleResponse, _ *x402.ReceiptPayload) { r.Transaction = "\x1b[2J" }, "signed by", true, false, `names no transaction: "[2J"`},
		"leaves payer, amount out": {func(r *x402.SettleResponse, _ *x402.ReceiptPayload) { r.Payer, r.Amount = "", "" }, "signed by", true, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := openSeller(t)
			s.paid = []http.HandlerFunc{s.settles(c.change)}
			buyer := newCustomer(t, s)
			p := buyer.open()
			buyer.sign(p)
			require.NoError(t, buyer.Settle(t.Context(), buyer.target, p), "it is paid in any case")
			r := buyer.Receipt(t.Context(), buyer.target, p)
			require.Contains(t, r.Words, c.want)
			require.Equal(t, []bool{c.verified, c.wrong}, []bool{r.Verified, r.Wrong}, r.Words)
			if c.fault == "" {
				require.Empty(t, r.Faults)
			} else {
				require.Contains(t, r.Faults[0], c.fault)
			}
		})
	}
	require.Zero(t, stranger.quotes)
}

// receiptBy is a receipt that somebody else signed in the name of the seller.
func receiptBy(s *seller, p *x402.ReceiptPayload) map[string]json.RawMessage {
	return map[string]json.RawMessage{"offer-receipt": encoded(s.t, object{"info": object{"receipt": object{"format": "jws", "signature": s.keys.Sign(p)}}})}
}

func TestAnAnswerWithoutASettlementIsSaidToBeOne(t *testing.T) {
	yes := x402.EncodeHeader(x402.SettleResponse{Success: true, Transaction: transaction})
	for name, c := range map[string]struct {
		headers     []string
		body, fault string
	}{
		"nothing said":          {nil, "the report", ""},
		"unreadable":            {[]string{"!"}, "", "PAYMENT-RESPONSE cannot be read"},
		"said twice":            {[]string{yes, yes}, "", "PAYMENT-RESPONSE cannot be read"},
		"another authorization": {nil, `{"authorization":"` + transaction + `"}`, "charged another authorization"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openSeller(t)
			s.paid = []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
				for _, header := range c.headers {
					w.Header().Add(x402.HeaderResponse, header)
				}
				_, _ = w.Write([]byte(c.body))
			}}
			buyer := newCustomer(t, s)
			p := buyer.open()
			buyer.sign(p)
			require.NoError(t, buyer.Settle(t.Context(), buyer.target, p))
			r := buyer.Receipt(t.Context(), buyer.target, p)
			require.False(t, r.Verified)
			require.Equal(t, c.fault != "", len(r.Faults) > 0)
			if c.fault != "" {
				require.Contains(t, r.Faults[0], c.fault)
			}
		})
	}
}

// What a dead or slow seller keeps from being checked is told, and not called wrong.
func TestASignatureThatCannotBeCheckedIsNotCalledWrong(t *testing.T) {
	s := openSeller(t)
	s.quote["extensions"].(object)["offer-receipt"] = s.offered(nil)
	c := newCustomer(t, s)
	c.Transport = noKeys{}
	q, err := c.Quote(t.Context(), c.target)
	require.NoError(t, err)
	require.False(t, q.Verified || q.Wrong)
	require.Contains(t, q.Words, "could not be checked")
}

// noKeys is a network on which no DID document is found.
type noKeys struct{}

func (noKeys) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		return nil, http.ErrServerClosed
	}
	return http.DefaultTransport.RoundTrip(r)
}
