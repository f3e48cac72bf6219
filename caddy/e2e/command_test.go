package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// TestCommandsSayInWordsWhatTheyHaveToSay runs the program as an operator does: nothing is logged before what a command
// prints, an error is one line, and one that is none of them fails.
func TestCommandsSayInWordsWhatTheyHaveToSay(t *testing.T) {
	program, shipped := server.Released(t), lab.Path(t, "Caddyfile")
	nobody, own := "127.0.0.1:"+payoffertest.FreePort(t), filepath.Join(t.TempDir(), "Caddyfile")
	require.NoError(t, os.WriteFile(own, []byte("http://localhost:8402 {\n\tpay_offer {\n\t\tbase_url http://localhost:8402\n\t\tcard https://buy.stripe.com/abc\n\t}\n}\n"), 0o600))
	for name, c := range map[string]struct {
		arguments      []string
		status         int
		printed, error string
	}{
		"a check":        {[]string{"check", "--config", own}, 0, "Payment offer: 42 USD for localhost:8402\n", ""},
		"no such file":   {[]string{"check", "--config", "none"}, 1, "", "Error: "},
		"no server":      {[]string{"received", "--config", shipped, "--address", nobody}, 1, "", "Error: "},
		"no command":     {[]string{"recieved"}, 1, "", "Error: "},
		"another status": {[]string{"pay", "http://" + nobody}, 1, "", "Error: this is not a private key; "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := exec.Command(program, append([]string{"pay-offer"}, c.arguments...)...)
			command.Env = append(command.Environ(), "PAY_OFFER_KEY=", "XDG_DATA_HOME="+t.TempDir())
			var out, failed bytes.Buffer
			command.Stdout, command.Stderr = &out, &failed
			_ = command.Run()
			require.Equal(t, c.status, command.ProcessState.ExitCode(), "%s", &failed)
			require.Equal(t, c.printed, out.String()[:min(len(c.printed), out.Len())])
			require.Equal(t, c.error, failed.String()[:min(len(c.error), failed.Len())])
			if c.error == "" {
				require.Empty(t, failed.String())
			} else {
				require.Empty(t, out.String())
				require.Equal(t, 1, bytes.Count(failed.Bytes(), []byte("\n")), "%s", &failed)
			}
		})
	}
}
