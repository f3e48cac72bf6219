// Package signature tests that what the server signs is verified by others: the official verifier and the command of
// this repository, with nothing but what the domain publishes.
package signature

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

func TestOfficialVerifierTakesOffersAndReceiptsAlsoAfterARotation(t *testing.T) {
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
	text, err := base64.StdEncoding.DecodeString(settlement)
	require.NoError(t, err)
	signed := regexp.MustCompile(`"signature":"[^".]+\.([^".]+)\.`).FindSubmatch(text)
	require.NotNil(t, signed, "no JWS in %s", text)
	payload, err := base64.RawURLEncoding.DecodeString(string(signed[1]))
	require.NoError(t, err)
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
	text, err := json.Marshal(s.extension(name, "schema"))
	require.NoError(s, err)
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(s, err)
	require.Equal(s, "https://json-schema.org/draft/2020-12/schema", parsed.(map[string]any)["$schema"])
	compiler := jsonschema.NewCompiler()
	require.NoError(s, compiler.AddResource("https://schemas.example/"+name, parsed))
	schema, err := compiler.Compile("https://schemas.example/" + name)
	require.NoError(s, err)
	return schema
}

func TestExtensionsOfTheQuoteFollowTheirSchemas(t *testing.T) {
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
