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

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

// On a full disk nothing is acknowledged, so that the provider repeats it, and what was received before is still told.
func TestFullDiskAcknowledgesNothing(t *testing.T) {
	s := openShop(t, "sqlite")
	require.Equal(t, http.StatusOK, s.pay("1"))

	var before unix.Rlimit
	require.NoError(t, unix.Prlimit(s.Pid(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1, Max: unix.RLIM_INFINITY}, &before))
	require.Equal(t, http.StatusServiceUnavailable, s.pay("2"))
	require.Equal(t, "42", s.received().ReceivedUSD.String())

	require.NoError(t, unix.Prlimit(s.Pid(), unix.RLIMIT_FSIZE, &before, nil))
	require.Equal(t, http.StatusOK, s.pay("2"))
	require.Equal(t, "84", s.received().ReceivedUSD.String())
}

// A database that is gone makes every answer about money 503, and no other; when it is back, all is as before.
func TestLostDatabaseReturns503(t *testing.T) {
	database := postgres.Start(t)
	s := openShop(t, "postgres "+strconv.Quote(database.DSN(t)))
	require.Equal(t, http.StatusOK, s.pay("1"))

	database.Stop(t)
	require.Equal(t, http.StatusServiceUnavailable, s.pay("2"))
	require.Equal(t, http.StatusServiceUnavailable, s.status("/v1/received"))
	require.Equal(t, http.StatusOK, s.status("/v1/invoice"), "what needs no ledger goes on")

	database.Start(t)
	server.Eventually(t, "the database is back", func() bool { return s.pay("2") == http.StatusOK })
	require.Equal(t, "84", s.received().ReceivedUSD.String())
}

func TestEachRailCountsByEvidence(t *testing.T) {
	s := openShop(t, "sqlite")

	require.Equal(t, http.StatusForbidden, s.post("/v1/hook/card", "{}", server.CardHeader("{}", "another secret")))
	require.Equal(t, http.StatusOK, s.pay("1"))
	require.Equal(t, http.StatusOK, s.pay("1"), "a duplicate")
	require.EqualValues(t, 1, s.rail("card").Confirmed.Count)
	require.Equal(t, "42", s.received().ReceivedUSD.String())

	// A notice of a storefront is unsigned: without a token the rail is not monitored.
	require.Equal(t, http.StatusForbidden, s.sell("another-secret-of-the-same-size!"))
	require.Equal(t, http.StatusOK, s.sell(storeSecret))
	require.Equal(t, "unknown", s.rail("tip-jar").State)
	require.Equal(t, "42", s.received().ReceivedUSD.String())

	// The operator's entry is the evidence of a bank transfer.
	out, err := server.Command(t, "", "record", "--rail", "transfer", "--reference", "INV-7", "--amount", "42", "--address", s.admin)
	require.NoError(t, err, out)
	require.Equal(t, "84", s.received().ReceivedUSD.String())
	require.Equal(t, "manual", s.rail("transfer").State)
	out, err = server.Command(t, "", "record", "--void", "--rail", "transfer", "--reference", "INV-7", "--reason", "entered twice", "--address", s.admin)
	require.NoError(t, err, out)
	require.Equal(t, "42", s.received().ReceivedUSD.String())
	require.EqualValues(t, 1, s.rail("transfer").Reversed.Count, "nothing is deleted")

	// What was refunded or disputed is money no more.
	refund := `{"id":"re_1","object":"refund","amount":4200,"currency":"usd","status":"succeeded","payment_intent":"pi_1","charge":"ch_1","created":1700000000}`
	refunded := server.CardEvent("refund.created", "re_1", refund)
	require.Equal(t, http.StatusOK, s.post("/v1/hook/card", refunded, server.CardHeader(refunded, cardSecret)))
	require.Zero(t, s.rail("card").Confirmed.Count)
	require.EqualValues(t, 1, s.rail("card").Refunded.Count)
	require.Equal(t, "0", s.received().ReceivedUSD.String())

	// A reader of the feed misses nothing.
	feed := s.get("/v1/received?after=0")
	var ids []string
	for _, transition := range feed.Transitions {
		ids = append(ids, payoffertest.Untagged(t, transition.ID)+" "+transition.To)
	}
	require.Equal(t, []string{
		"card:pi_1:1 confirmed", "transfer:INV-7:1 confirmed", "transfer:INV-7:2 reversed", "card:pi_1:2 refunded",
	}, ids)
	require.Empty(t, s.get(strings.TrimPrefix(*feed.Next, s.url)).Transitions)
}

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
func TestFeedReportsRestoredLedger(t *testing.T) {
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
	copied := lab.Must(os.ReadFile(ledger))(t)

	s = open()
	sell(s, "2", "3")
	late, status := s.follow("after=" + early.Cursor)
	require.Equal(t, http.StatusOK, status)
	require.Len(t, late.Transitions, 2)
	next := lab.Must(url.Parse(late.Next))(t)
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

// offered is a Caddyfile at debug level with a line in the card and one in the storefront.
func offered(url, admin, card, store string) string {
	return `{
	debug
	admin ` + admin + `
	default_bind 127.0.0.1
}
` + url + ` {
	pay_offer {
		base_url ` + url + `
		` + card + `
		storefront tip-jar https://shop.example/tip {
			` + store + `
		}
	}
}
`
}

// Caddy prints the configuration at level DEBUG: what stands there literally is in the log, which the warning says. What
// a placeholder stands for is not.
func TestDebugLogShowsOnlyLiteralSecrets(t *testing.T) {
	for secret, literal := range map[string]bool{storeSecret: true, "{env.STORE_SECRET}": false} {
		s := &shop{t: t, url: "http://localhost:" + payoffertest.FreePort(t)}
		s.Process = server.Start(t, s.url, offered(s.url, "off", "card https://checkout.example", "product p\n hook_secret "+secret),
			"STORE_SECRET="+storeSecret)
		s.awaitStart()
		s.sell(storeSecret)
		s.Terminate()
		s.Await(t)

		var shown, warned bool
		for _, line := range strings.Split(s.Log(), "\n") {
			if strings.Contains(line, storeSecret) {
				require.Contains(t, line, "adjusted config", "nothing else prints it")
				shown = true
			}
			warned = warned || strings.Contains(line, "secrets are in the configuration itself") &&
				strings.Contains(line, "storefront tip-jar hook_secret")
		}
		require.Equal(t, literal, shown)
		require.Equal(t, literal, warned)
	}
}
