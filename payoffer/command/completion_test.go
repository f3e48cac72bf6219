package command

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/desk"
)

// completed are the words that a shell is given for what was typed so far.
func completed(t *testing.T, typed ...string) []string {
	t.Helper()
	root := group(&cobra.Command{Use: "pay-offer"}, subcommands()...)
	out, err := execute(t, root, append([]string{cobra.ShellCompRequestCmd}, typed...)...)
	require.NoError(t, err)
	words, _, found := strings.Cut(out, ":4\n") // ShellCompDirectiveNoFileComp
	require.True(t, found, out)
	return strings.Split(strings.TrimSuffix(words, "\n"), "\n")
}

func TestAShellCompletesRailsReferencesAndValuesOfFlags(t *testing.T) {
	offers := map[string]any{"offers": []any{
		map[string]any{"id": "one", "report": map[string]any{"rails": []any{map[string]any{"rail": "card"}, map[string]any{"rail": "transfer"}}}},
		map[string]any{"id": "two", "report": map[string]any{"rails": []any{map[string]any{"rail": "transfer"}, map[string]any{"rail": "pa\x1bck"}}}},
	}}
	receipts := map[string]any{"receipts": []any{
		map[string]any{"rail": "transfer", "reference": "INV-7", "paid": "42", "unit": "USD", "occurred_at": "2026-11-20T00:00:00Z"},
		map[string]any{"rail": "card", "reference": "pi\n_1", "paid": "42", "unit": "EUR", "occurred_at": "2026-11-21T00:00:00Z"},
	}}
	for typed, c := range map[string]struct {
		answer any
		asked  string
		want   []string
	}{
		"record --rail ":                  {offers, desk.PathReceived, []string{"card", "pack", "transfer"}},
		"record --offer two --rail ":      {offers, desk.PathReceived, []string{"pack", "transfer"}},
		"rewind ":                         {offers, desk.PathReceived, []string{"card", "pack", "transfer"}},
		"received --offer ":               {offers, desk.PathReceived, []string{"one", "two"}},
		"record --reference ":             {receipts, desk.PathReceipts, []string{"INV-7\ttransfer, 42 USD, 2026-11-20", "pi_1\tcard, 42 EUR, 2026-11-21"}},
		"record --rail card --reference ": {receipts, desk.PathReceipts, []string{"pi_1\tcard, 42 EUR, 2026-11-21"}},
	} {
		api := newAdminAPI(t, c.answer)
		words := strings.Split(typed, " ")
		got := completed(t, append([]string{words[0], "--address", api.address}, words[1:]...)...)
		require.Equal(t, c.want, got, typed)
		require.Len(t, api.asked, 1)
		require.True(t, strings.HasPrefix(api.asked[0], "GET "+c.asked), api.asked[0])
		require.Equal(t, []string{""}, completed(t, append([]string{words[0], "--address", "127.0.0.1:9"}, words[1:]...)...), "without a server there is nothing")
	}
	require.Equal(t, []string{"POST", "GET"}, completed(t, "pay", "--method", ""))
	require.Contains(t, completed(t, "pay", "--network", ""), "base-sepolia")
}

// Whoever pressed a key gets the shell back, also where a server takes the question and says nothing, or begins an answer.
func TestAShellThatCompletesDoesNotWaitForASilentServer(t *testing.T) {
	for name, begin := range map[string]func(http.ResponseWriter){
		"nothing": func(http.ResponseWriter) {}, "the head": func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				begin(w)
				<-r.Context().Done()
			}))
			defer server.Close()
			for _, typed := range [][]string{{"record", "--rail", ""}, {"record", "--reference", ""}} {
				require.Equal(t, []string{""}, completed(t, append([]string{typed[0], "--address", server.Listener.Addr().String()}, typed[1:]...)...))
			}
		})
	}
}

func TestAShellCompletesTheRailsOfAConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "caddy.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"apps": {"pay_offer": {}}}`), 0o600))
	require.Contains(t, completed(t, "qr", "--config", file, ""), "card")
	require.Equal(t, []string{""}, completed(t, "qr", "--config", file+"x", ""))
	require.Equal(t, []string{""}, completed(t, "qr", "--config", file, "card", ""), "one rail is enough")
}
