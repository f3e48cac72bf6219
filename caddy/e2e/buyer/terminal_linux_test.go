package buyer

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

func TestTerminalPaymentNeedsConfirmation(t *testing.T) {
	for typed, yes := range map[string]bool{"y\n": true, "YES\n": true, "\n": false, "n\n": false, "yeah\n": false, "\x04": false} {
		t.Run(fmt.Sprintf("%q", typed), func(t *testing.T) {
			l := openLiar(t, asks(t, quoted(nil)), func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "bought") })
			key := chain.NewKey(t)
			p := newPerson(t, key)
			keyboard, screen := lab.OpenTerminal(t)
			_, err := io.WriteString(keyboard, typed)
			require.NoError(t, err)
			command := p.command(server.Released(t), l.URL)
			command.Stdin = screen
			got := p.end(command)
			require.Contains(t, got.out, "Pay? [y/N] ")
			require.Less(t, strings.Index(got.out, stranger), strings.Index(got.out, "Pay?"), "it is shown before it is asked")
			require.Equal(t, yes, got.code == 0, got)
			require.Equal(t, yes, l.payments.Load() == 1)
			require.Equal(t, yes, len(p.kept()) == 1)
		})
	}
}
