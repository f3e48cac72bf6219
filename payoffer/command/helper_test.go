package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// execute runs a command and returns what it printed.
func execute(t *testing.T, command *cobra.Command, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetErr(&out)
	command.SilenceUsage, command.SilenceErrors = true, true
	command.SetArgs(args)
	err := command.ExecuteContext(t.Context())
	return out.String(), err
}

// adminAPI stands in for that of a running server.
type adminAPI struct {
	t       *testing.T
	address string
	// asked are the requests, as in "GET /pay_offer/intents?limit=100"; bodies
	// are what they held.
	asked, bodies []string
	header        http.Header // of the last one
	answers       []string    // one after the other; the last one stays
	status        int
}

func newAdminAPI(t *testing.T, answers ...any) *adminAPI {
	t.Helper()
	a := &adminAPI{t: t, status: http.StatusOK}
	for _, answer := range answers {
		text := must(json.Marshal(answer))(t)
		a.answers = append(a.answers, string(text)+"\n")
	}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.address = server.Listener.Addr().String()
	return a
}

func (a *adminAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.asked, a.bodies, a.header = append(a.asked, r.Method+" "+r.RequestURI), append(a.bodies, strings.TrimSpace(string(body))), r.Header
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.answers[0])
	if len(a.answers) > 1 {
		a.answers = a.answers[1:]
	}
}

// run runs a command against the API.
func (a *adminAPI) run(command *cobra.Command, args ...string) (string, error) {
	a.t.Helper()
	return execute(a.t, command, append(args, "--address", a.address)...)
}

// must fails the test if a call fails, and returns its value: must(call())(t).
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

// errorOf is the error of a call.
func errorOf[T any](_ T, err error) error { return err }

// The lists of commands and the prose fit 80 columns. Examples are one line each, to be copied.
func TestHelpFitsTerminalWidth(t *testing.T) {
	commands := slices.Concat(subcommands()...)
	ledger := slices.IndexFunc(commands, func(c *cobra.Command) bool { return c.Name() == "ledger" })
	for _, list := range [][]*cobra.Command{commands, commands[ledger].Commands()} {
		var longest int
		for _, c := range list {
			longest = max(longest, len(c.Name()), 11) // as cobra aligns them
		}
		for _, c := range list {
			require.LessOrEqual(t, longest+3+utf8.RuneCountInString(c.Short), 80, c.Name())
			for line := range strings.Lines(c.Long) {
				require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSpace(line)), 80, line)
			}
		}
	}
}

// Errors may repeat what strangers wrote.
func TestErrorsHaveNoControlCharacters(t *testing.T) {
	for _, said := range []error{errors.New("one \x1b[2J\u202etwo\r\nthree"), errors.New("one [2Jtwo\nthree")} {
		_, err := execute(t, setRun(new(cobra.Command), func(caddycmd.Flags, io.Writer) error { return said }))
		require.EqualError(t, err, "one [2Jtwo\nthree")
	}
}

// A command whose output ends at head has done its work. A connection that broke has not.
func TestClosedPipeIsNoError(t *testing.T) {
	broken := func(said error) error {
		_, err := execute(t, setRun(new(cobra.Command), func(caddycmd.Flags, io.Writer) error { return said }))
		return err
	}
	require.NoError(t, broken(&fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.EPIPE}))
	for _, said := range []error{
		&net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}, &fs.PathError{Op: "write", Path: "/tmp/content", Err: syscall.EPIPE},
		&fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.ENOSPC},
	} {
		require.Error(t, broken(said))
	}
}
