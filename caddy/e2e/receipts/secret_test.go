package receipts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// offered is a Caddyfile at debug level with a line in the card and one in the storefront.
func offered(url, admin, card, store string) string {
	return `{
	debug
	admin ` + admin + `
	default_bind 127.0.0.1
}
` + url + ` {
	pay_offer {
		base_url ` + url + `
		` + card + `
		storefront tip-jar https://shop.example/tip {
			` + store + `
		}
	}
}
`
}

// Every command refuses a key at the wrong option, and no output contains it, at any level. A literal key is in Caddy's own
// debug log, which prints the configuration.
func TestASecretInTheWrongOptionIsInNoOutputOfAnyCommand(t *testing.T) {
	const key = "51HqLyjWDarjtT1zdp7dcXYZ"
	folder := t.TempDir()
	config := filepath.Join(folder, "Caddyfile")
	for _, place := range []struct{ card, store string }{
		{"card https://checkout.example {\n payment_link SECRET\n}", "seller a"},
		{"card https://checkout.example/?key=SECRET", "seller a"},
		{"card https://checkout.example", "product SECRET"},
		{"card https://checkout.example\nid SECRET", "seller a"},
	} {
		for secret, commands := range map[string][]string{
			"{env.MISPLACED}": {"pay-offer check", "validate", "run"},
		} {
			text := offered("http://localhost:8402", "off", place.card, place.store)
			require.NoError(t, os.WriteFile(config, []byte(strings.Replace(text, "SECRET", secret, 1)), 0o600))
			for _, name := range commands {
				command := exec.CommandContext(t.Context(), server.Released(t), append(strings.Fields(name), "--config", config)...)
				command.Env = []string{"HOME=" + folder, "MISPLACED=sk_live_" + key}
				output, err := command.CombinedOutput()
				require.Error(t, err, "%s of %s", name, place)
				require.Contains(t, string(output), "looks like a secret of a payment service", "%s of %s", name, place)
				require.NotContains(t, string(output), key, "%s of %s", name, place)
			}
		}
	}
}

// Caddy prints the configuration at level DEBUG: what stands there literally is in the log, which the warning says. What
// a placeholder stands for is not.
func TestTheDebugLogHoldsLiteralSecretsAloneAndTheWarningSaysSo(t *testing.T) {
	for secret, literal := range map[string]bool{storeSecret: true, "{env.STORE_SECRET}": false} {
		s := &shop{t: t, url: "http://localhost:" + payoffertest.FreePort(t)}
		s.Process = server.Start(t, s.url, offered(s.url, "off", "card https://checkout.example", "product p\n hook_secret "+secret),
			"STORE_SECRET="+storeSecret)
		s.awaitStart()
		s.sell(storeSecret)
		s.Terminate()
		s.Await(t)

		var shown, warned bool
		for _, line := range strings.Split(s.Log(), "\n") {
			if strings.Contains(line, storeSecret) {
				require.Contains(t, line, "adjusted config", "nothing else prints it")
				shown = true
			}
			warned = warned || strings.Contains(line, "secrets are in the configuration itself") &&
				strings.Contains(line, "storefront tip-jar hook_secret")
		}
		require.Equal(t, literal, shown)
		require.Equal(t, literal, warned)
	}
}
