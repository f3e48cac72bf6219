package command

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

func TestErrorsOfTheAdminAPIAreItsOwnWords(t *testing.T) {
	for _, c := range []struct {
		status       int
		answer, want string
	}{
		{http.StatusConflict, `{"error":"it is: {so}"}` + "\n", "it is: {so}"},
		{http.StatusConflict, `{"error":"a\u001b[2Jb"}`, "a[2Jb"},
		{http.StatusServiceUnavailable, `{"error":""}`, `the admin API answers with status 503 ({"error":""}); check --address`},
		{http.StatusNotFound, "404 page not found", "the admin API answers with status 404 (404 page not found); check --address"},
	} {
		api := newAdminAPI(t)
		api.status, api.answers = c.status, []string{c.answer}
		_, err := api.run(receivedCommand())
		require.EqualError(t, err, c.want)
	}
}

func TestAServerThatIsNotThereIsNamed(t *testing.T) {
	_, err := execute(t, receivedCommand(), "--address", "127.0.0.1:9")
	require.ErrorContains(t, err, "no server answers at the admin API 127.0.0.1:9 (connect: connection refused); start the server, or name its address, such as --address localhost:2019")
	require.ErrorContains(t, err, "refused)")
	_, err = execute(t, receivedCommand(), "--address", "127.0.0.1:9-10")
	require.ErrorContains(t, err, `the admin address "127.0.0.1:9-10" is not valid`)
}

func TestTheAdminAPIIsAskedFromItsOwnOrigin(t *testing.T) {
	api := newAdminAPI(t, operator.RotatedKey{})
	must(api.run(rotateKeyCommand()))(t)
	require.Equal(t, "http://"+api.address, api.header.Get("Origin"))
	require.Equal(t, "application/json", api.header.Get("Content-Type"))
}

func TestTheAdminAPIMayListenAtASocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "admin.sock")
	listener := must(net.Listen("unix", socket))(t)
	api := newAdminAPI(t, operator.Intents{})
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: api}}
	server.Start()
	defer server.Close()
	for _, address := range []string{"unix/" + socket, "unix/" + socket + "|0600"} {
		api.address = address
		out, err := api.run(intentsCommand())
		require.NoError(t, err, address)
		require.Equal(t, "no payment has an unknown outcome\n", out)
		require.NotContains(t, api.header, "Origin")
	}
}

func TestTheAddressIsThatOfTheConfiguration(t *testing.T) {
	api := newAdminAPI(t, map[string]any{"offers": []any{}})
	file := filepath.Join(t.TempDir(), "caddy.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"admin":{"listen":"`+api.address+`"}}`), 0o600))
	out := must(execute(t, receivedCommand(), "--config", file))(t)
	require.Equal(t, "no offer is running\n", out)
	require.ErrorContains(t, errorOf(execute(t, receivedCommand(), "--config", file+".none")), "caddy.json.none")
}

// At the default address another server may listen, with other books and keys.
func TestAConfigurationWithoutAdminAPIAsksNobody(t *testing.T) {
	file := filepath.Join(t.TempDir(), "caddy.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"admin":{"disabled":true}}`), 0o600))
	for _, command := range []*cobra.Command{receivedCommand(), rotateKeyCommand()} {
		_, err := execute(t, command, "--config", file)
		require.ErrorContains(t, err, "turns the admin API off")
		require.ErrorContains(t, err, file)
	}
}

func TestReceivedSaysWhyAnOfferTakesNoPayments(t *testing.T) {
	printed := map[string]any{"offers": []operator.Received{
		{ID: "one.example", Trouble: "its account belongs to\x1b another"}, {ID: "two.example", Report: new(report.Summary)},
	}}
	out := must(newAdminAPI(t, printed).run(receivedCommand()))(t)
	require.Contains(t, out, "one.example takes no payments: its account belongs to another\n")
	require.NotContains(t, out, "two.example takes no payments")
}
