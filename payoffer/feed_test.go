package payoffer

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

// The command is asked of the server that runs, over a reload of its configuration
// that changes the offer, and stopped.
func TestCommandWatchFollowsTheFeedOverAReload(t *testing.T) {
	o := newOperated(t, books)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	registered := caddycmd.Commands()["pay-offer"]
	command := &cobra.Command{Use: registered.Name, SilenceUsage: true, SilenceErrors: true}
	registered.CobraFunc(command)
	out, printed := io.Pipe()
	aside, told := io.Pipe()
	command.SetOut(printed)
	command.SetErr(told)
	command.SetArgs([]string{"watch", "--json", "--address", o.address})
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()
	notices, lines := bufio.NewScanner(aside), bufio.NewScanner(out)
	require.True(t, notices.Scan())
	require.Equal(t, "watching "+strings.TrimPrefix(o.service, "http://")+" after 0; stop with Ctrl-C", notices.Text())
	go io.Copy(io.Discard, aside) //nolint:errcheck // what it says of the reload, if anything
	defer told.Close()

	next := func() (c operator.Change) {
		require.True(t, lines.Scan())
		require.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		return c
	}
	o.enter(`{"action":"enter","rail":"transfer","reference":"INV-1","amount":42,"sure":true,"date":"2026-11-20"}`)
	first := next()
	require.Equal(t, "INV-1 confirmed 42 USD", first.Receipt+" "+first.Status+" "+first.Paid())

	o.reload(strings.Replace(books, "checkout.example", "other.example", 1))
	o.enter(`{"action":"reverse","rail":"transfer","reference":"INV-1","reason":"recalled"}`)
	second := next()
	require.Equal(t, "INV-1 reversed recalled", second.Receipt+" "+second.Status+" "+second.Reason)
	require.Equal(t, "confirmed", *second.From)

	stop()
	require.NoError(t, <-ended)
	again := o.ask(http.MethodGet, operator.PathFeed+"?after="+url.QueryEscape(first.Cursor), "")
	require.Contains(t, again.body, `"cursor":"`+second.Cursor+`"`)
}

func TestTheFeedRefusesWhatItDoesNotKnow(t *testing.T) {
	o := newOperated(t, books)
	for query, want := range map[string]struct {
		status int
		says   string
	}{
		"?since=1":                   {http.StatusBadRequest, "use offer and after"},
		"?after=x":                   {http.StatusBadRequest, "this is not a cursor"},
		"?after=99.00c0ffee00c0ffee": {http.StatusConflict, "an older backup was restored"},
		"?offer=nothing":             {http.StatusNotFound, "no offer has the id"},
	} {
		got := o.ask(http.MethodGet, operator.PathFeed+query, "")
		require.Equal(t, want.status, got.status, query)
		require.Contains(t, got.body, want.says)
	}
	require.Equal(t, http.StatusMethodNotAllowed, o.ask(http.MethodPost, operator.PathFeed, "{}").status)
}
