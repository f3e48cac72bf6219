package e2e

import (
	"bytes"
	"os/exec"
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
	nobody := "127.0.0.1:" + payoffertest.FreePort(t)
	for name, c := range map[string]struct {
		arguments      []string
		status         int
		printed, error string
	}{
		"a code":         {[]string{"qr", "card", "--config", shipped}, 0, "42 USD by card or wallet\n", ""},
		"no such rail":   {[]string{"qr", "stripe", "--config", shipped}, 1, "", "Error: "},
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
