package upgrade

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

const (
	secret   = "whsec_of_the_card_rail"
	patience = 30 * time.Second
	again    = 50 * time.Millisecond
	// rounds is how many payments each version is told of while both run.
	rounds = 40
)

// instance is one of several servers of one offer.
type instance struct {
	*server.Process
	t          testing.TB
	url, admin string
}

// start runs a version of the server on the ledger and the storage that all have in common.
func start(t testing.TB, binary, dsn, storage string) *instance {
	t.Helper()
	i := &instance{t: t, url: "http://localhost:" + payoffertest.FreePort(t), admin: "localhost:" + payoffertest.FreePort(t)}
	i.Process = server.StartBinary(t, binary, i.url, fmt.Sprintf(`{
	admin %s
	persist_config off
	default_bind 127.0.0.1
	storage file_system %q
	pay_offer {
		ledger postgres %q
	}
}
%s {
	pay_offer {
		base_url https://pay.example
		id upgrade
		card https://checkout.example/pay {
			payment_link plink_1
			webhook_secret {env.CARD_SECRET}
		}
		bank_transfer transfer pay@example.org
	}
}
`, i.admin, storage, dsn, i.url), "CARD_SECRET="+secret)
	for _, url := range []string{i.url + "/v1/received", "http://" + i.admin + "/pay_offer/received"} { // one is there before the other
		require.Eventually(t, func() bool {
			answer, err := http.Get(url)
			if err != nil {
				return false
			}
			answer.Body.Close()
			return answer.StatusCode == http.StatusOK
		}, patience, again)
	}
	return i
}

// do sends a request, which must be answered with 200, and returns the body.
func (i *instance) do(method, url string, body []byte, header ...string) []byte {
	i.t.Helper()
	request, err := http.NewRequest(method, url, bytes.NewReader(body))
	require.NoError(i.t, err)
	for n := 0; n < len(header); n += 2 {
		request.Header.Set(header[n], header[n+1])
	}
	answer, err := http.DefaultClient.Do(request)
	require.NoError(i.t, err)
	defer answer.Body.Close()
	read, err := io.ReadAll(answer.Body)
	require.NoError(i.t, err)
	require.Equal(i.t, http.StatusOK, answer.StatusCode, "%s", read)
	return read
}

// deliver posts a signed event of the card processor.
func (i *instance) deliver(kind, id, object string) {
	i.t.Helper()
	now := time.Now().Unix()
	body := fmt.Appendf(nil, `{"id":"evt_%s_%s","object":"event","type":%q,"livemode":true,"created":%d,"data":{"object":%s}}`,
		strings.ReplaceAll(kind, ".", "_"), id, kind, now, object)
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", now, body)
	i.do(http.MethodPost, i.url+"/v1/hook/card", body, "Content-Type", "application/json",
		"Stripe-Signature", fmt.Sprintf("t=%d,v1=%s", now, hex.EncodeToString(mac.Sum(nil))))
}

// pay tells of a card payment of 42 in a currency, in its smallest unit.
func (i *instance) pay(id, currency string) {
	i.t.Helper()
	i.deliver("checkout.session.completed", id, fmt.Sprintf(`{"id":"cs_%s","object":"checkout.session","mode":"payment",
		"status":"complete","payment_status":"paid","amount_total":4200,"currency":%q,"livemode":true,"created":%d,
		"payment_intent":"pi_%[1]s","payment_link":"plink_1"}`, id, currency, time.Now().Unix()+1))
}

// refund tells that a part went back.
func (i *instance) refund(id string, amount int) {
	i.t.Helper()
	i.deliver("refund.created", id, fmt.Sprintf(`{"id":"re_%s","object":"refund","amount":%d,"currency":"usd","status":"succeeded",
		"payment_intent":"pi_%[1]s","charge":"ch_1","created":1700000000}`, id, amount))
}

// enter enters a bank transfer of 42 by hand.
func (i *instance) enter(reference string) {
	i.t.Helper()
	i.do(http.MethodPost, "http://"+i.admin+"/pay_offer/receipts",
		fmt.Appendf(nil, `{"action":"enter","offer":"upgrade","rail":"transfer","reference":%q,"amount":42}`, reference), "Content-Type", "application/json")
}

func (i *instance) received() string {
	i.t.Helper()
	var report struct {
		ReceivedUSD json.Number `json:"receivedUsd"`
	}
	require.NoError(i.t, json.Unmarshal(i.do(http.MethodGet, i.url+"/v1/received", nil), &report))
	return report.ReceivedUSD.String()
}

// tag ends the ids that this version tells of its changes; the one before knows none.
var tag = regexp.MustCompile(`:[0-9a-f]{16}$`)

// changes are all transitions that the feed lists, as "id to".
func (i *instance) changes() (all []string) {
	i.t.Helper()
	for next := i.url + "/v1/received?after=0"; ; {
		var feed struct {
			Transitions []struct{ ID, To string }
			Last        json.Number
		}
		require.NoError(i.t, json.Unmarshal(i.do(http.MethodGet, next, nil), &feed))
		if len(feed.Transitions) == 0 {
			return all
		}
		for _, t := range feed.Transitions {
			all = append(all, tag.ReplaceAllString(t.ID, "")+" "+t.To)
		}
		next = i.url + "/v1/received?after=" + feed.Last.String()
	}
}

func TestTheVersionBeforeGoesOnBesideThisOne(t *testing.T) {
	t.Parallel()
	dsn, storage := postgres.Start(t).DSN(t), t.TempDir()
	older := start(t, before(t), dsn, storage)
	older.pay("first", "usd")
	older.enter("INV-first")
	require.Equal(t, "84", older.received())

	newer := start(t, server.Released(t), dsn, storage)
	require.Equal(t, "84", newer.received(), "what was received before the change of the schema")
	want := 84
	for n := range rounds {
		// Each is told of what the other one recorded: both change the same rows.
		for name, pair := range map[string][2]*instance{"a": {older, newer}, "b": {newer, older}} {
			id := fmt.Sprint(name, n)
			pair[0].pay(id, "usd")
			pair[1].refund(id, 1_000)
			pair[1].enter("INV-" + id)
			want += 42 - 10 + 42
			require.Equal(t, fmt.Sprint(want), pair[0].received())
			require.Equal(t, fmt.Sprint(want), pair[1].received())
		}
	}
	newer.pay("yen", "jpy")
	require.Equal(t, fmt.Sprint(want), newer.received(), "another currency has a sum of its own")
	require.Equal(t, fmt.Sprint(want), older.received())

	told := newer.changes()
	require.Equal(t, told, older.changes())
	seen := make(map[string]bool)
	for _, change := range told {
		require.False(t, seen[change], change)
		seen[change] = true
	}
	require.Len(t, told, 2+rounds*2*3+1)

	older.Terminate()
	older.Await(t)
	newer.refund("first", 4_200)
	require.Equal(t, fmt.Sprint(want-42), newer.received())
}
