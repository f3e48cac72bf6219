package command

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/logging"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/diagnose"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
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
	bitcoin, err := offer.NewBitcoin(cmp.Or(a.Bitcoin, "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"), "Example", 4200)
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

// configuration writes one and returns the name of its file.
func configuration(t *testing.T, app string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "caddy.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"admin":{"disabled":true},"apps":{"pay_offer":`+app+`}}`), 0o600))
	return file
}

func TestCommandCheckPrintsWhatIsPublished(t *testing.T) {
	out := must(execute(t, checkCommand(), "--config", configuration(t, `{}`)))(t)
	require.Contains(t, out, "Example Offer: 42 USD for Example Org\n  http://localhost:8402/v1/pay\n")
	require.Contains(t, out, "https://checkout.example/pay\n")
	require.Regexp(t, `\n  btc +bip21 +\(`, out, "what follows the rate is not available here")
	require.Contains(t, out, "\n  usdc base is left out, because its address is empty; set its variable, or remove the option\n")
	require.NotContains(t, out, "clock")
	require.NotContains(t, out, "compare")
}

// Whoever exported the key of another account finds out before anybody pays.
func TestCommandCheckPrintsTheFirstAddressesOfAnExtendedKey(t *testing.T) {
	out, err := execute(t, checkCommand(), "--config", configuration(t, `{"Bitcoin":"`+
		`zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs"}`))
	require.NoError(t, err)
	require.Contains(t, out, "\n  the first addresses of the extended key are bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu and bc1qnjg0jd8228aq7egyzacy8cys3knf9xvrerkf9g; "+
		"compare them with the first two receiving addresses in its wallet: if they differ, the wallet will not show the payments\n")
	require.NotContains(t, out, "zpub6rFR7")
}

func TestCommandCheckFailsWithASentence(t *testing.T) {
	_, err := execute(t, checkCommand(), "--config", configuration(t, `{"None":true}`))
	require.ErrorContains(t, err, "caddy.json has no pay_offer directive")
	_, err = execute(t, checkCommand(), "--config", configuration(t, `{"None":1}`))
	require.ErrorContains(t, err, "pay_offer")
	t.Chdir(t.TempDir())
	require.ErrorContains(t, errorOf(execute(t, checkCommand())), "name the configuration, such as --config")
}
