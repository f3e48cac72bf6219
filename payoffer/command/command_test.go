package command

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// TestHelpFitsIntoATerminal of 80 columns: the lists of commands, and the prose. Examples are one line each, to be copied.
func TestHelpFitsIntoATerminal(t *testing.T) {
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
func TestNothingInAnErrorSteersATerminal(t *testing.T) {
	for _, said := range []error{errors.New("one \x1b[2J\u202etwo\r\nthree"), errors.New("one [2Jtwo\nthree")} {
		_, err := execute(t, runs(new(cobra.Command), func(caddycmd.Flags, io.Writer) error { return said }))
		require.EqualError(t, err, "one [2Jtwo\nthree")
	}
}
