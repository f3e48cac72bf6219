package agents

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

func TestOfficialVerifierAcceptsOffersAndReceipts(t *testing.T) {
	t.Parallel()
	lab.RequireNode(t)
	c := chain.Start(t)
	s := openShop(t, node.StartFacilitator(t, c.URL, c.Facilitator), c.URL)
	payer := chain.Address(c.Buyers[0]).Hex()
	signed := node.BuySigned(t, s.base+"/v1/sponsor", c.Buyers[0])

	verified := node.VerifySigned(t, signed, payer)
	require.Empty(t, verified.Error)
	require.Empty(t, verified.Bazaar)
	require.NotEmpty(t, verified.PaymentID, "a client may name its payment")
	require.True(t, verified.Matches, "the receipt is for the offer, the network and the payer")
	require.Len(t, verified.Offers, 1)
	require.Greater(t, verified.Offers[0]["validUntil"], float64(time.Now().Add(24*time.Hour).Unix()))
	delete(verified.Offers[0], "validUntil")
	require.Equal(t, map[string]any{
		"version": 1.0, "resourceUrl": s.base + "/v1/sponsor", "scheme": "exact", "network": "eip155:84532",
		"asset": chain.USDC.Hex(), "payTo": payee, "amount": "42000000",
	}, verified.Offers[0])
	require.InDelta(t, time.Now().Unix(), verified.Receipt["issuedAt"], 120)
	delete(verified.Receipt, "issuedAt")
	require.Equal(t, map[string]any{
		"version": 1.0, "resourceUrl": s.base + "/v1/sponsor", "network": "eip155:84532", "payer": strings.ToLower(payer),
	}, verified.Receipt, "and no transaction")

	forged := signed
	forged.Settlement = tampered(t, signed.Settlement)
	require.Contains(t, node.VerifySigned(t, forged, payer).Error, "signature")

	receipt := "PAYMENT-RESPONSE: " + signed.Settlement
	out, err := server.Command(t, receipt, "verify", "-")
	require.NoError(t, err, out)
	require.Contains(t, out, "VALID receipt: "+strings.TrimPrefix(s.base, "http://")+" says that "+strings.ToLower(payer))
	out, err = server.Command(t, forged.Settlement, "verify", "-")
	require.Error(t, err)
	require.Contains(t, out, "did not make this signature")

	s.rotateKey()
	require.Empty(t, node.VerifySigned(t, signed, payer).Error, "the former key stays published")
	_, err = server.Command(t, receipt, "verify", "-")
	require.NoError(t, err)
	s.rotateKey("--revoke")
	out, err = server.Command(t, receipt, "verify", "-")
	require.Error(t, err)
	require.Contains(t, out, "revoked")
	now := s.quote()
	signed.Quote, signed.Body = now.Header.Get("PAYMENT-REQUIRED"), now.Body
	require.Contains(t, node.VerifySigned(t, signed, payer).Error, "No verification method found")
}

// tampered changes one letter of the receipt that a settlement holds.
func tampered(t *testing.T, settlement string) string {
	t.Helper()
	text := lab.Must(base64.StdEncoding.DecodeString(settlement))(t)
	signed := regexp.MustCompile(`"signature":"[^".]+\.([^".]+)\.`).FindSubmatch(text)
	require.NotNil(t, signed, "no JWS in %s", text)
	payload := lab.Must(base64.RawURLEncoding.DecodeString(string(signed[1])))(t)
	changed := bytes.Replace(payload, []byte(`"payer":"0x`), []byte(`"payer":"1x`), 1)
	require.NotEqual(t, payload, changed)
	text = bytes.Replace(text, signed[1], []byte(base64.RawURLEncoding.EncodeToString(changed)), 1)
	return base64.StdEncoding.EncodeToString(text)
}

// What follows needs neither a facilitator nor a chain.
const nobody = "http://127.0.0.1:9"

// schemaOf compiles the schema of an extension, whose dialect must be JSON Schema 2020-12.
func (s *shop) schemaOf(name string) *jsonschema.Schema {
	s.Helper()
	text := lab.Must(json.Marshal(s.extension(name, "schema")))(s)
	parsed := lab.Must(jsonschema.UnmarshalJSON(bytes.NewReader(text)))(s)
	require.Equal(s, "https://json-schema.org/draft/2020-12/schema", parsed.(map[string]any)["$schema"])
	compiler := jsonschema.NewCompiler()
	require.NoError(s, compiler.AddResource("https://schemas.example/"+name, parsed))
	schema, err := compiler.Compile("https://schemas.example/" + name)
	require.NoError(s, err)
	return schema
}

func TestQuoteExtensionsMatchSchemas(t *testing.T) {
	t.Parallel()
	s := openShop(t, nobody, nobody)
	require.Equal(t, map[string]any{"required": false}, s.extension("payment-identifier", "info"))
	for name, required := range map[string]string{"bazaar": "input", "offer-receipt": "offers"} {
		schema, info := s.schemaOf(name), s.extension(name, "info").(map[string]any)
		require.NoError(t, schema.Validate(info), name)
		delete(info, required)
		require.Error(t, schema.Validate(info), "the schema of %s checks nothing", name)
	}
	info := s.extension("bazaar", "info").(map[string]any)
	info["input"].(map[string]any)["method"] = "GET"
	require.Error(t, s.schemaOf("bazaar").Validate(info))
}

// The official clients pay, and what they are given leads people and programs to the receipt.
func TestOfficialClientsFindReceipt(t *testing.T) {
	t.Parallel()
	lab.RequireNode(t)
	c := chain.Start(t)
	s := openShop(t, node.StartFacilitator(t, c.URL, c.Facilitator), c.URL)
	for n, buyer := range []node.Buyer{node.BuyerV1, node.BuyerV2} {
		bought := node.Pay(t, buyer, s.base+"/v1/sponsor", c.Buyers[n])
		require.Equal(t, http.StatusOK, bought.Status, bought.Body)
		var paid struct{ ReceiptURL string }
		require.NoError(t, json.Unmarshal([]byte(bought.Body), &paid))
		require.Contains(t, paid.ReceiptURL, s.base+"/v1/receipt/")

		var receipt struct{ ID, Status, Evidence, Transaction, Payer, AmountAtomic, SignedReceiptURL string }
		var body string
		server.Eventually(t, "the receipt is confirmed", func() bool {
			body = server.Get(t, paid.ReceiptURL, "application/json")
			require.NoError(t, json.Unmarshal([]byte(body), &receipt))
			return receipt.Status == "confirmed"
		})
		transfers := c.TransfersTo(t, common.HexToAddress(payee))
		require.Len(t, transfers, n+1)
		require.Equal(t, transfers[n].Tx.Hex(), receipt.Transaction)
		require.Equal(t, strings.ToLower(transfers[n].From.Hex()), receipt.Payer)
		require.Equal(t, transfers[n].Value.String(), receipt.AmountAtomic)
		require.Equal(t, fmt.Sprintf("eip155:84532:%s:%d", receipt.Transaction, transfers[n].Ordinal), receipt.ID)
		require.Equal(t, "chain", receipt.Evidence)

		page := html.UnescapeString(server.Get(t, paid.ReceiptURL, "text/html"))
		for _, want := range []string{"<h1>Receipt</h1>", ">42 USDC<", receipt.ID, receipt.Transaction, receipt.Payer, "https://sepolia.basescan.org/tx/" + receipt.Transaction} {
			require.Contains(t, page, want)
		}

		for _, signed := range []string{body, server.Get(t, receipt.SignedReceiptURL, "*/*")} {
			out, err := server.Command(t, signed, "verify", "-")
			require.NoError(t, err, out)
			require.Contains(t, out, "VALID receipt: "+strings.TrimPrefix(s.base, "http://")+" says that "+receipt.Payer)
		}
		listed, err := server.Command(t, "", "received", "--receipts", "--address", s.admin)
		require.NoError(t, err, listed)
		require.Contains(t, listed, paid.ReceiptURL+"\n", "the operator knows the same page")
		require.NotContains(t, server.Get(t, s.base+"/v1/received", "application/json")+server.Get(t, s.base+"/v1/received", "text/html")+server.Get(t, s.base+"/v1/received?after=0", "*/*"), "/v1/receipt/")
	}
}

// caddyfile is an offer on one test network. Nothing else is configured for signing.
const caddyfile = `{
	admin {ADMIN}
	persist_config off
	default_bind 127.0.0.1
	storage file_system {DIR}/storage
	pay_offer {
		ledger sqlite {DIR}/ledger.db
	}
}
http://localhost:{PORT} {
	pay_offer {
		base_url http://localhost:{PORT}
		site_url http://localhost:{PORT}
		card https://checkout.example/pay
		usdc base-sepolia {PAYEE} {
			facilitator {FACILITATOR}
			rpc {RPC}
			confirm latest
		}
	}
	respond 404
}
`

// payee is the address of the offer.
const payee = "0x52908400098527886E0F7030069857D2E4169EE7"

// shop is a running server.
type shop struct {
	*testing.T
	base, admin string
}

// openShop starts a server whose payments a facilitator settles on a chain.
func openShop(t *testing.T, facilitator, rpc string) *shop {
	t.Helper()
	port := payoffertest.FreePort(t)
	s := &shop{t, "http://localhost:" + port, "127.0.0.1:" + payoffertest.FreePort(t)}
	server.Start(t, s.base, strings.NewReplacer(
		"{ADMIN}", s.admin, "{DIR}", t.TempDir(), "{PORT}", port, "{PAYEE}", payee, "{FACILITATOR}", facilitator, "{RPC}", rpc,
	).Replace(caddyfile))
	// It answers before it has loaded its keys.
	server.Eventually(t, "the quote is signed", func() bool { return strings.Contains(s.quote().Body, "offer-receipt") })
	return s
}

// rotateKey asks the running server for a new key.
func (s *shop) rotateKey(args ...string) {
	s.Helper()
	out, err := server.Command(s, "", append([]string{"rotate-key", "--address", s.admin}, args...)...)
	require.NoError(s, err, out)
}

// quote asks for the terms.
func (s *shop) quote() server.Answer {
	s.Helper()
	a := server.Ask(server.Client, http.MethodGet, s.base+"/v1/quote", "", nil)
	require.Equal(s, http.StatusPaymentRequired, a.Status)
	return a
}

// extension is a part of an extension of the quote, which stands in its header or in its body.
func (s *shop) extension(name, part string) any {
	s.Helper()
	quote := s.quote()
	header := lab.Must(base64.StdEncoding.DecodeString(quote.Header.Get("PAYMENT-REQUIRED")))(s)
	var found []map[string]any
	for _, text := range []string{string(header), quote.Body} {
		var terms struct{ Extensions map[string]map[string]any }
		require.NoError(s, json.Unmarshal([]byte(text), &terms))
		if extension := terms.Extensions[name]; extension != nil {
			found = append(found, extension)
		}
	}
	require.Len(s, found, 1, "where %s stands", name)
	return found[0][part]
}
