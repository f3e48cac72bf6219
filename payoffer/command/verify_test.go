package command

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// domain publishes a key on loopback and signs with it.
type domain struct {
	t            *testing.T
	origin, host string
	storage      signature.Storage
}

func newDomain(t *testing.T) *domain {
	t.Helper()
	d := &domain{t: t, storage: &certmagic.FileStorage{Path: t.TempDir()}}
	key := d.keys("did:web:localhost").Published()[0]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		card, err := offer.NewCard("https://checkout.example/pay", nil, 4200)
		if err != nil || r.URL.Path != offer.PathDID {
			http.NotFound(w, r)
			return
		}
		o, err := offer.New(offer.Terms{ID: "pay", BaseURL: d.origin, Amount: 4200}, card)
		if err == nil {
			_, _ = w.Write(document.DID(o, document.VerificationKey{ID: key.ID, Public: key.Public}).Body)
		}
	}))
	t.Cleanup(server.Close)
	d.origin, d.host = server.URL, offer.Host(server.URL)
	return d
}

// keys are those of the domain, in the name of a DID.
func (d *domain) keys(did string) *signature.Keys {
	d.t.Helper()
	keys := signature.NewKeys(signature.KeysConfig{
		DID: did, Path: "keys.json", Storage: func() signature.Storage { return d.storage }, Now: time.Now, Logger: slog.Default(),
	})
	require.NoError(d.t, keys.Load(d.t.Context()))
	return keys
}

func (d *domain) sign(payload any) string { return d.signAs(d.origin, payload) }

// signAs signs in the name of an origin.
func (d *domain) signAs(origin string, payload any) string {
	d.t.Helper()
	return d.keys(offer.DIDWeb(origin)).Sign(payload)
}

// receipt is one of now.
func (d *domain) receipt() x402.ReceiptPayload {
	return x402.ReceiptPayload{
		Version: 1, Network: "eip155:84532", ResourceURL: d.origin + "/v1/sponsor", Payer: "0x00aa", IssuedAt: time.Now().Unix(),
	}
}

// verify runs the command: a text that is no argument is its standard input.
func verify(t *testing.T, argument string) (string, error) {
	t.Helper()
	command := verifyCommand()
	command.SetIn(strings.NewReader(argument))
	if strings.ContainsAny(argument, "\n{") {
		argument = "-"
	}
	return execute(t, command, argument)
}

func TestCommandVerifySaysWhatAStatementProves(t *testing.T) {
	d := newDomain(t)
	signed := d.sign(d.receipt())
	out := must(verify(t, signed))(t)
	require.Contains(t, out, "VALID receipt: "+d.host+" says that 0x00aa paid for "+d.origin+"/v1/sponsor on base-sepolia (eip155:84532); issued 20")
	require.Contains(t, out, "has no amount and no transaction")
	require.Contains(t, out, "which "+d.host+" publishes")

	withTransaction := d.receipt()
	withTransaction.Transaction = "0x01"
	out = must(verify(t, d.sign(withTransaction)))(t)
	require.Contains(t, out, "transaction, as "+d.host+" reports: 0x01")

	out = must(verify(t, d.sign(x402.OfferPayload{
		Version: 1, ResourceURL: d.origin + "/v1/quote", Scheme: "exact", Network: "eip155:84532",
		Asset: "0x036cbd53842c5426634e7929541ec2318f3dcf7e", PayTo: "0x52", Amount: "42000000",
	})))(t)
	require.Contains(t, out, "VALID offer: "+d.host+" asks 42 USDC on base-sepolia (eip155:84532)")
	require.Contains(t, out, "to 0x52 (exact); it is valid without an end")

	file := filepath.Join(t.TempDir(), "receipt.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"format":"jws","signature":"`+signed+`"}`), 0o600))
	out = must(verify(t, file))(t)
	require.Contains(t, out, "VALID receipt")
}

// many are so many artifacts.
func many(d *domain, count int) string {
	var artifacts []string
	for n := range count {
		artifacts = append(artifacts, `{"format":"jws","signature":"`+d.sign(map[string]int{"n": n})+`"}`)
	}
	return "[" + strings.Join(artifacts, ",") + "]"
}

func TestCommandVerifyFailsWithASentence(t *testing.T) {
	d := newDomain(t)
	receipt := func(change func(*x402.ReceiptPayload)) string {
		payload := d.receipt()
		change(&payload)
		return d.sign(payload)
	}
	good := receipt(func(*x402.ReceiptPayload) {})
	other := receipt(func(p *x402.ReceiptPayload) { p.Payer = "0x00bb" })
	tampered := good[:strings.LastIndex(good, ".")] + other[strings.LastIndex(other, "."):]
	of := func(origin string) x402.ReceiptPayload {
		return x402.ReceiptPayload{Version: 1, Network: "eip155:1", ResourceURL: origin + "/", Payer: "0x", IssuedAt: 1}
	}
	for name, c := range map[string]struct{ argument, want string }{
		"nothing signed":      {"receipt.json", "the input has no signed receipt or offer"},
		"tampered":            {tampered, "NOT VALID: the key that 127.0.0.1:"},
		"no Ed25519":          {"eyJhbGciOiJub25lIn0.e30.AAAA", "NOT VALID: it is not signed with EdDSA"},
		"no statement":        {d.sign(map[string]int{"version": 1}), "NOT VALID: it is neither an offer nor a receipt"},
		"another version":     {receipt(func(p *x402.ReceiptPayload) { p.Version = 2 }), "version 2"},
		"no URL":              {receipt(func(p *x402.ReceiptPayload) { p.ResourceURL = "pay" }), "names no domain"},
		"plain http":          {receipt(func(p *x402.ReceiptPayload) { p.ResourceURL = "http://pay.example.org/" }), "plain http"},
		"another domain":      {receipt(func(p *x402.ReceiptPayload) { p.ResourceURL = "https://evil.example/" }), "is not a key of evil.example"},
		"another key":         {d.signAs("https://evil.example", of(d.origin)), "is not a key of 127.0.0.1"},
		"nobody there":        {d.signAs("http://127.0.0.1:9", of("http://127.0.0.1:9")), "could not be read: unreachable (127.0.0.1)"},
		"of tomorrow":         {receipt(func(p *x402.ReceiptPayload) { p.IssuedAt += 86_400 }), "in the future"},
		"an offer that ended": {d.sign(x402.OfferPayload{Version: 1, ResourceURL: d.origin + "/", Scheme: "exact", Network: "eip155:1", PayTo: "0x", ValidUntil: 1}), "EXPIRED"},
		"too many":            {many(d, 17), "more than 16"},
		"one of two":          {`[{"format":"jws","signature":"` + good + `"},{"format":"jws","signature":"` + tampered + `"}]`, "number 2 of 2: NOT VALID"},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorContains(t, errorOf(verify(t, c.argument)), c.want)
		})
	}
}

// What a stranger signed must not steer the terminal that it is printed on.
func TestCommandVerifyPrintsNoControlCharacters(t *testing.T) {
	d := newDomain(t)
	out := must(verify(t, d.sign(x402.ReceiptPayload{
		Version: 1, Network: "eip155:1\u202e", ResourceURL: d.origin + "/", Payer: "\x1b[2Jme", IssuedAt: 1,
	})))(t)
	require.Contains(t, out, "[2Jme")
	require.NotContains(t, out, "\x1b")
	require.NotContains(t, out, "\u202e")
}
