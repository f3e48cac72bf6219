package command

import (
	"testing"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/stretchr/testify/require"
)

// readBack is what Caddy makes of a word in a Caddyfile: of the file, also after 'caddy
// fmt', and of the placeholders in it.
func readBack(t *testing.T, word string) string {
	t.Helper()
	file := []byte("example.org {\n\tname " + word + " end\n}\n")
	require.Equal(t, string(file), string(caddyfile.Format(file)))
	blocks, err := caddyfile.Parse("Caddyfile", file)
	require.NoError(t, err, "%q", word)
	require.Len(t, blocks, 1)
	require.Len(t, blocks[0].Segments, 1)
	line := blocks[0].Segments[0]
	require.Len(t, line, 3, "%q is one word", word)
	return caddy.NewReplacer().ReplaceKnown(line[1].Text, "")
}

// What must mean nothing in a value, and lies in the corpus of the fuzzing, too.
var unruly = []string{
	`{`, `}`, `{}`, `} admin off {`, `"`, `""`, "`", "``", `"x" y`, "a ` b", "\" ` \"", `\`, `x\`, `\"`, `a \" b`, `\{`, `\}`, `\\{env.HOME}`, `\\`,
	`{env.HOME}`, `{file./etc/passwd}`, `{$HOME}`, `{$HOME:x}`, `{$}`, `{$:}`, `{$`, `{$:{$}`, `{$HOME}{$HOME}`, `{{$HOME}}`, `\{$HOME}`, `{env.HOME`, `{system.hostname}`,
	`# no comment`, `a #b`, "<<END\nx\nEND", `<<END`, "a\nb", "a\r\nb", "\x00", "\x1b[2J", " ", " x ", "\u202e", "\ufeff", "$HOME", "import x", "@x", "é", "{args[0]}", "{block}",
}

func TestAValueIsReadBackAsItIs(t *testing.T) {
	t.Setenv("HOME", "/home/of/somebody")
	for _, value := range unruly {
		word, err := quoted(value)
		require.NoError(t, err, "%q", value)
		require.Equal(t, value, readBack(t, word), "written as %s", word)
	}
	for _, value := range []string{"\xff", "` \\\"", "`\\"} {
		_, err := quoted(value)
		require.ErrorIs(t, err, errUnquotable, "%q", value)
	}
}

func FuzzAValueIsReadBackAsItIs(f *testing.F) {
	for _, value := range unruly {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		word, err := quoted(value)
		if value == "" || err != nil {
			return
		}
		require.True(t, utf8.ValidString(value))
		require.Equal(t, value, readBack(t, word), "written as %s", word)
	})
}
