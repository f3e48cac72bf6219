package buyer

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// openTerminal opens a pseudo-terminal: what is written to keyboard is typed on screen.
func openTerminal(t *testing.T) (keyboard, screen *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = keyboard.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = screen.Close() })
	return keyboard, screen
}

func TestOnATerminalNothingIsSignedWithoutAYes(t *testing.T) {
	for typed, yes := range map[string]bool{"y\n": true, "YES\n": true, "\n": false, "n\n": false, "yeah\n": false, "\x04": false} {
		t.Run(fmt.Sprintf("%q", typed), func(t *testing.T) {
			l := openLiar(t, asks(t, quoted(nil)), func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "bought") })
			key, err := crypto.GenerateKey()
			require.NoError(t, err)
			p := newPerson(t, key)
			keyboard, screen := openTerminal(t)
			_, err = io.WriteString(keyboard, typed)
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
