package payoffer

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/assert/yaml"
	"github.com/stretchr/testify/require"
)

// packaged is the Caddyfile of the image and the unit, with variables, as JSON.
func packaged(t *testing.T, env ...string) string {
	t.Helper()
	content := must(os.ReadFile("../caddy/package/Caddyfile"))(t)
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	config, _, err := adaptAny(string(content))
	require.NoError(t, err)
	return config
}

// The variables of an operator make a public offer, and no secret is in the configuration.
func TestPackagedCaddyfileVariables(t *testing.T) {
	const base, site = "BASE_URL=https://pay.example.org", "SITE_URL=https://www.example.org"
	const card, usdc = "CARD_URL=https://checkout.example.org/42", "USDC_ADDRESS=0x52908400098527886E0F7030069857D2E4169EE7"
	key := ed25519.NewKeyFromSeed([]byte(strings.Repeat("hidden--", 4)))
	for name, c := range map[string]struct {
		env   []string
		hosts string
		want  Handler
		json  []string
	}{
		"a card alone, on one host": {[]string{base, card}, `["pay.example.org"]`, Handler{}, []string{`"ledger":{"driver":"sqlite"}`}},
		"empty variables": {
			[]string{base, card, "SITE_URL=", "USDC_ADDRESS=", "BITCOIN_ADDRESS=", "TRANSFER_INBOX=", "CARD_PAYMENT_LINK=", "CARD_API_KEY=", "PAY_OFFER_OPTIONS="},
			`["pay.example.org"]`, Handler{}, nil,
		},
		"every variable": {
			[]string{
				base, site, card, usdc, "CARD_PAYMENT_LINK=plink_1", "CARD_WEBHOOK_SECRET=whsec_hidden-0123456789abcdef", "CARD_API_KEY=rk_live_hidden",
				"BITCOIN_ADDRESS=bc1q3qxu2dmlrw6sdls82tl369t02yu543z6qlp7lj", "TRANSFER_INBOX=bank@example.org", "CDP_KEY_ID=hidden-id",
				"CDP_KEY_SECRET=" + base64.StdEncoding.EncodeToString(key), "LEDGER=postgres {env.OFFER_TEST_DSN}", "OFFER_TEST_DSN=postgres://u:hidden@h/base",
				"CADDY_GLOBAL_OPTIONS=email operator@example.org\nacme_ca https://ca.example.net/dir", "CADDY_EXTRA_CONFIG=other.example.org {\nrespond other\n}",
				"PAY_OFFER_OPTIONS=name Ours\nlegal \"Example Org\"", "CADDY_SERVER_EXTRA_DIRECTIVES=header X-Ours 1",
			},
			`["pay.example.org","www.example.org"]`,
			Handler{SiteURL: "https://www.example.org", Name: "Ours", Legal: []string{"Example Org"}},
			[]string{`"ledger":{"driver":"postgres","dsn":"{env.OFFER_TEST_DSN}"}`, "operator@example.org", "ca.example.net", "other.example.org", "X-Ours"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := packaged(t, c.env...)
			require.NoError(t, caddy.Validate(decode(t, config)))
			require.NotContains(t, config, "hidden")
			require.NotContains(t, config, base64.StdEncoding.EncodeToString(key))
			require.Contains(t, config, c.hosts)
			for _, part := range c.json {
				require.Contains(t, config, part)
			}
			h := handlersOf(t, config)[0]
			require.Equal(t, "https://pay.example.org", h.BaseURL)
			require.Equal(t, c.want, Handler{SiteURL: h.SiteURL, Name: h.Name, Legal: h.Legal})
			var http caddyhttp.App
			require.NoError(t, json.Unmarshal(decode(t, config).AppsRaw["http"], &http))
			require.NotZero(t, http.GracePeriod, "a client that disappeared delays a stop no longer")
			for _, server := range http.Servers {
				require.Equal(t, []string{":443"}, server.Listen)
			}
		})
	}
}

func TestPackagedCaddyfileRequiresACard(t *testing.T) {
	require.ErrorContains(t, caddy.Validate(decode(t, packaged(t, "BASE_URL=https://pay.example.org"))), "card: the address is empty")
}

// TestRepositoryCaddyfilesAreValid formats, adapts and validates each, with the variables that have no default.
func TestRepositoryCaddyfilesAreValid(t *testing.T) {
	t.Setenv("BASE_URL", "https://pay.example.org")
	t.Setenv("CARD_URL", "https://checkout.example.org/42")
	files := must(filepath.Glob("../caddy/e2e/testdata/layouts/*.caddyfile"))(t)
	require.Len(t, files, 5)
	for _, file := range append(files, "../Caddyfile", "../caddy/package/Caddyfile") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			// A file that 'caddy fmt' would change is adapted with a warning.
			config, warnings, err := adaptAny(readSource(t, file))
			require.NoError(t, err)
			require.Empty(t, warnings)
			require.NoError(t, caddy.Validate(decode(t, config)))
		})
	}
}

// TestReadmeIsShort holds the length that a stranger reads.
func TestReadmeIsShort(t *testing.T) {
	require.LessOrEqual(t, strings.Count(readSource(t, "../README.md"), "\n"), 200)
}

// TestIssueFormsAreValid reads the forms as the hosting site does, which shows none that it cannot read.
func TestIssueFormsAreValid(t *testing.T) {
	forms := must(filepath.Glob("../.github/ISSUE_TEMPLATE/*.yml"))(t)
	for _, file := range forms {
		if filepath.Base(file) == "config.yml" {
			continue
		}
		var form struct {
			Name, Description string
			Body              []struct {
				Type, ID    string
				Attributes  struct{ Label, Value string }
				Validations struct{ Required bool }
			}
		}
		require.NoError(t, yaml.Unmarshal([]byte(readSource(t, file)), &form), file)
		assert.NotEmpty(t, form.Name, file)
		assert.NotEmpty(t, form.Description, file)
		required := 0
		for _, field := range form.Body {
			assert.NotEmpty(t, field.Attributes.Label+field.Attributes.Value, file)
			if field.Validations.Required {
				required++
			}
		}
		assert.NotZero(t, required, file)
	}
	require.Len(t, forms, 4)
}
