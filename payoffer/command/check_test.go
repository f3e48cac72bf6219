package command

import (
	"cmp"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/logging"
	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/diagnose"
	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

func init() {
	caddy.RegisterModule(new(app))
}

// app stands in for the app of the plugin. It has one offer, or none.
type app struct {
	None    bool
	Path    string
	Bitcoin string
}

func (*app) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "pay_offer", New: func() caddy.Module { return new(app) }}
}

func (*app) Start() error { return nil }
func (*app) Stop() error  { return nil }

func (*app) Cleanup() error { return nil }
func (*app) Acquire() error { return nil }

// NewLedger reads the words as a path; that of the configuration is Path.
func (a *app) NewLedger(words string) (*ledger.Ledger, error) {
	return ledger.NewSQLite(cmp.Or(words, a.Path), time.Now), nil
}

func (a *app) Offers() []*offer.Offer {
	if a.None {
		return nil
	}
	card, err := offer.NewCard("https://checkout.example/pay", nil, 4200)
	if err != nil {
		panic(err)
	}
	bitcoin, err := offer.NewBitcoin(cmp.Or(a.Bitcoin, "bc1q3qxu2dmlrw6sdls82tl369t02yu543z6qlp7lj"), "Example", 4200)
	if err != nil {
		panic(err)
	}
	terms := offer.Terms{ID: "one", Name: "Example Offer", Operator: "Example Org", BaseURL: "http://localhost:8402", Amount: 4200}
	o, err := offer.New(terms, card, bitcoin)
	if err != nil {
		panic(err)
	}
	return []*offer.Offer{o}
}

// Checked is an offer of which no part is on another machine.
func (a *app) Checked() []diagnose.Offer {
	card, err := offer.NewCard("http://localhost:9/pay", nil, 4200)
	if err != nil {
		panic(err)
	}
	terms := offer.Terms{ID: "one", Name: "Example Offer", Operator: "Example Org", BaseURL: "http://localhost:9", SiteURL: "http://localhost:9", Amount: 4200}
	o, err := offer.New(terms, card)
	if err != nil {
		panic(err)
	}
	return []diagnose.Offer{{Settings: &service.Settings{Offer: o, LeftOut: []string{"usdc base"}}}}
}

// configuration writes one with a pay_offer handler, which only check looks for, and returns the name of its file.
func configuration(t *testing.T, app string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "caddy.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"admin":{"disabled":true},"handle":[{"handler":"pay_offer"}],"apps":{"pay_offer":`+app+`}}`), 0o600))
	return file
}

func TestCommandCheckPrintsOffer(t *testing.T) {
	out := must(execute(t, checkCommand(), "--config", configuration(t, `{}`)))(t)
	require.Contains(t, out, "Example Offer: 42 USD for Example Org\n  http://localhost:8402/v1/pay\n")
	require.Contains(t, out, "https://checkout.example/pay\n")
	require.Regexp(t, `\n  btc +bip21 +\(`, out, "what follows the rate is not available here")
	require.Contains(t, out, "\n  usdc base is left out, because its address is empty; set its variable, or remove the option\n")
	require.NotContains(t, out, "clock")
	require.NotContains(t, out, "compare")
}

// Whoever exported the key of another account finds out before anybody pays.
func TestCommandCheckPrintsExtendedKeyAddresses(t *testing.T) {
	out, err := execute(t, checkCommand(), "--config", configuration(t, `{"Bitcoin":"`+
		`zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs"}`))
	require.NoError(t, err)
	require.Contains(t, out, "\n  the first addresses of the extended key are bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu and bc1qnjg0jd8228aq7egyzacy8cys3knf9xvrerkf9g; "+
		"compare them with the first two receiving addresses in its wallet: if they differ, the wallet will not show the payments\n")
	require.NotContains(t, out, "zpub6rFR7")
}

func TestCommandCheckErrors(t *testing.T) {
	_, err := execute(t, checkCommand(), "--config", configuration(t, `{"None":true}`))
	require.ErrorContains(t, err, "caddy.json has no pay_offer directive")
	_, err = execute(t, checkCommand(), "--config", configuration(t, `{"None":1}`))
	require.ErrorContains(t, err, "pay_offer")
	t.Chdir(t.TempDir())
	require.ErrorContains(t, errorOf(execute(t, checkCommand())), "name the configuration, such as --config")
}

// offering is an offer that takes bank transfers to an account; to none where it is empty.
func offering(t *testing.T, bank offer.Bank) *offer.Offer {
	t.Helper()
	card, err := offer.NewCard("https://checkout.example/pay", nil, 42_00)
	require.NoError(t, err)
	transfer := must(offer.NewBankTransfer("transfer", "pay@example.org", "Example 42", "Example Org", 42_00))(t)
	if bank != (offer.Bank{}) {
		require.NoError(t, transfer.Publish(bank))
	}
	o, err := offer.New(offer.Terms{ID: "one", Name: "Example", Operator: "Example Org", BaseURL: "http://localhost:8402", Amount: 42_00}, card, transfer)
	require.NoError(t, err)
	return o
}

// The operator reads what payers will read, before anybody sends money elsewhere.
func TestCommandCheckPrintsBankAccount(t *testing.T) {
	const mail = "mailto:pay@example.org?subject=42"
	for name, c := range map[string]struct {
		bank offer.Bank
		want string // of the account
	}{
		"told by e-mail": {offer.Bank{}, ""},
		"an IBAN": {
			offer.Bank{AccountHolderName: "Example Org Ltd", IBAN: "DE75512108001245126199"},
			"  bank transfers go to Example Org Ltd: IBAN DE75512108001245126199; payers see 42 USD, no amount in euros, and the reference \"Example 42\"\n",
		},
		"a price in euros": {
			offer.Bank{AccountHolderName: "Example Org Ltd", IBAN: "DE75512108001245126199", BIC: "SOGEDEFF", AmountEUR: 39_00},
			"  bank transfers go to Example Org Ltd: IBAN DE75512108001245126199, BIC SOGEDEFF; payers see 39.00 EUR and the reference \"Example 42\"\n",
		},
		"the United States": {
			offer.Bank{AccountHolderName: "Example Inc", RoutingNumber: "021000021", AccountNumber: "1234567"},
			"  bank transfers go to Example Inc: routing number 021000021, account number 1234567; payers see 42 USD, no amount in euros, and the reference \"Example 42\"\n",
		},
	} {
		o := offering(t, c.bank)
		var checked strings.Builder
		printOffer(&checked, o)
		require.Contains(t, checked.String(), mail, name)
		if c.want == "" {
			require.NotContains(t, checked.String(), "bank transfers go to", name)
			continue
		}
		require.Contains(t, checked.String(), c.want, name)
	}
}

func TestCommandCheckFlagsNeedLive(t *testing.T) {
	for _, flag := range [][]string{{"--json"}, {"--address", "localhost:1"}} {
		_, err := execute(t, checkCommand(), append(flag, "--config", configuration(t, `{}`))...)
		require.EqualError(t, err, "--json and --address need --live; write for example 'caddy pay-offer check --live --json'")
	}
}

func TestCommandCheckLiveJSON(t *testing.T) {
	api := newAdminAPI(t, map[string]any{"offers": []operator.Diagnostics{}})
	out, err := api.run(checkCommand(), "--live", "--json", "--config", configuration(t, `{"None":true}`))
	require.ErrorContains(t, err, "has no pay_offer directive")
	require.Regexp(t, `^Error: \S+ has no pay_offer directive; .*\n$`, out, "nothing that could be read as a report")
	require.Empty(t, api.asked)

	out, err = api.run(checkCommand(), "--live", "--json", "--config", configuration(t, `{}`))
	require.ErrorContains(t, err, "problems found")
	var report diagnose.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report), out)
	require.Equal(t, "one", report.Offers[0].ID)
	require.Equal(t, diagnose.SettingsDiffer.Name, report.Issues[0].Code)
	require.Equal(t, "GET /pay_offer/diagnostics", api.asked[0])
}

func TestCommandCheckLivePrintsIssues(t *testing.T) {
	api := newAdminAPI(t, map[string]any{"offers": []operator.Diagnostics{}})
	out, err := api.run(checkCommand(), "--live", "--config", configuration(t, `{}`))
	require.ErrorContains(t, err, "problems found")
	require.Regexp(t, `(?m)^settings-differ \(one\): the running server has no offer one\n  fix: Load the configuration with 'caddy reload'`, out)
}

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

func TestCommandVerifyPrintsSignedContent(t *testing.T) {
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

func TestCommandVerifyErrors(t *testing.T) {
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
	untrusted := httptest.NewTLSServer(nil)
	t.Cleanup(untrusted.Close)
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	for name, c := range map[string]struct{ argument, want string }{
		"not trusted":         {d.signAs(untrusted.URL, of(untrusted.URL)), "could not be read: the server's certificate is not trusted (x509: "},
		"a receipt's page":    {"https://pay.example.org/v1/receipt/secret", "curl -s <page>/receipt.jws | caddy pay-offer verify -"},
		"nothing signed":      {"receipt.json", `"receipt.json" is neither a signed receipt or offer nor a file`},
		"a key":               {strings.Repeat("4c08", 16), "this looks like a private key"},
		"nothing in a file":   {"admin_test.go", "the input has no signed receipt or offer"},
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
