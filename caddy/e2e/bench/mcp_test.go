package bench

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// toolCall is what an agent sends that has not paid.
var toolCall = request{
	method: http.MethodPost, path: offer.PathMCP, body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor"}}`,
	header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}},
}

// measureToolsCall compares a call without payment with a handler that writes the same bytes, and with the official library.
func measureToolsCall(b *testing.B, t *table) {
	ours := startOffer(b, "pay_offer", "sqlite {DIR}/ledger.db", noFacilitator, clients)
	want := ours.ask(b, toolCall)
	require.Equal(b, http.StatusOK, want.Status, "%s", want.Body)
	bare := startBare(b, map[string]answer{"POST " + offer.PathMCP: want.copied()}, clients)
	requireSame(b, want.copied(), bare.ask(b, toolCall))
	var message struct{ Result json.RawMessage }
	require.NoError(b, json.Unmarshal(want.Body, &message))
	library := startLibrary(b, message.Result)
	var other struct{ Result json.RawMessage }
	require.NoError(b, json.Unmarshal(library.ask(b, toolCall).Body, &other))
	require.JSONEq(b, string(message.Result), string(other.Result))

	spent := costs(b, toolCall, http.StatusOK, ours, bare, library)
	t.add("tools/call without payment: bare Caddy handler ÷ ours", ratio(spent[1], spent[0]), "", microseconds(spent[0], spent[1]))
	t.add("tools/call without payment: bare MCP library ÷ ours", ratio(spent[2], spent[0]), "≥ 0.8", microseconds(spent[0], spent[2]))
}

var libraryServer = lab.Program{Name: "mcp-sdk", Folder: "caddy/e2e", Package: "./bench/sdk"}

// startLibrary runs a bare server of the official library whose tool has a result.
func startLibrary(t testing.TB, result []byte) *side {
	t.Helper()
	binary, output, err := libraryServer.Path(t)
	require.NoError(t, err, "%s", output)
	file := filepath.Join(t.TempDir(), "result.json")
	require.NoError(t, os.WriteFile(file, result, 0o600))
	command := exec.Command(binary, file)
	in, err := command.StdinPipe()
	require.NoError(t, err)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		_ = in.Close()
		require.NoError(t, command.Wait())
	})
	host, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return newSide(t, "MCP library", strings.TrimSpace(host), command.Process.Pid, clients)
}
