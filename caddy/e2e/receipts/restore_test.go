package receipts

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/stretchr/testify/require"
)

// feed is what GET /v1/received?after= says, as far as the tests read it.
type feed struct {
	Cursor, Next, Type string
	Transitions        []struct{ Cursor, Receipt string }
}

// follow asks the feed as a reader does and returns the status beside the answer.
func (s *shop) follow(query string) (f feed, status int) {
	s.t.Helper()
	a := server.Ask(server.Client, http.MethodGet, s.url+"/v1/received?"+query, "", nil)
	require.NoError(s.t, json.Unmarshal([]byte(a.Body), &f))
	return f, a.Status
}

// An older copy of the ledger's file is put back while the server is stopped. Whatever a reader of the feed kept, it is
// told, before and after numbers are used again; one that has only read what the copy has goes on.
func TestEveryReaderOfTheFeedIsToldOfARestore(t *testing.T) {
	ledger, storage := filepath.Join(t.TempDir(), "ledger.db"), t.TempDir()
	open := func() *shop {
		return openShop(t, "sqlite "+strconv.Quote(ledger), "storage file_system "+strconv.Quote(storage))
	}
	stop := func(s *shop) {
		s.Terminate()
		s.Await(t)
		require.NoFileExists(t, ledger+"-wal", "all is in the file")
	}
	sell := func(s *shop, payments ...string) {
		for _, id := range payments {
			require.Equal(t, http.StatusOK, s.pay(id))
		}
	}

	s := open()
	sell(s, "1")
	early, _ := s.follow("after=0")
	require.Len(t, early.Transitions, 1)
	stop(s)
	copied, err := os.ReadFile(ledger)
	require.NoError(t, err)

	s = open()
	sell(s, "2", "3")
	late, status := s.follow("after=" + early.Cursor)
	require.Equal(t, http.StatusOK, status)
	require.Len(t, late.Transitions, 2)
	next, err := url.Parse(late.Next)
	require.NoError(t, err)
	stop(s)
	require.NoError(t, os.WriteFile(ledger, copied, 0o600))

	s = open()
	keptBy := map[string]string{
		"a cursor": "after=" + late.Cursor, "the cursor of a change": "after=" + late.Transitions[0].Cursor, "the next address": next.RawQuery,
	}
	told := func(reader string) {
		refusal, status := s.follow(keptBy[reader])
		require.Equal(t, http.StatusGone, status, reader)
		require.Equal(t, "urn:pay-offer:problem:unknown-cursor", refusal.Type, reader)
	}
	for reader := range keptBy {
		told(reader)
	}
	sell(s, "4", "3", "2") // the provider delivers again what it can, in another order
	for reader := range keptBy {
		told(reader)
	}

	all, status := s.follow("after=0")
	require.Equal(t, http.StatusOK, status)
	var receipts []string
	for _, change := range all.Transitions {
		receipts = append(receipts, change.Receipt)
	}
	require.Equal(t, "pi_1 pi_4 pi_3 pi_2", strings.Join(receipts, " "))
	require.Equal(t, "168", s.received().ReceivedUSD.String())
	more, status := s.follow("after=" + early.Cursor)
	require.Equal(t, http.StatusOK, status)
	require.Len(t, more.Transitions, 3)
}
