// Package receipts tests what the built binary takes for received money, and what it says when it cannot know.
package receipts

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	cardSecret  = "whsec_of_the_card_rail"
	storeSecret = "0123456789abcdef0123456789abcdef"
	product     = "product-1"
	patience    = 30 * time.Second
	again       = 50 * time.Millisecond
)

// shop is a running server with an offer on rails that tell of payments by webhook or by hand.
type shop struct {
	*server.Process
	t          testing.TB
	url, admin string
}

// openShop starts the binary with a ledger, as the option names it, and further global options, of which each is a line.
func openShop(t testing.TB, ledger string, global ...string) *shop {
	t.Helper()
	s := &shop{t: t, url: "http://localhost:" + payoffertest.FreePort(t), admin: "localhost:" + payoffertest.FreePort(t)}
	s.Process = server.Start(t, s.url, fmt.Sprintf(`{
	admin %s
	persist_config off
	default_bind 127.0.0.1
	%s
	pay_offer {
		ledger %s
	}
}
%s {
	pay_offer {
		base_url %[4]s
		id receipts
		card https://checkout.example/pay {
			payment_link plink_1
			webhook_secret {env.CARD_SECRET}
		}
		bank_transfer transfer pay@example.org
		storefront tip-jar https://shop.example/tip {
			product %s
			hook_secret {env.STORE_SECRET}
		}
	}
}
`, s.admin, strings.Join(global, "\n\t"), ledger, s.url, product), "CARD_SECRET="+cardSecret, "STORE_SECRET="+storeSecret)
	// The key of QR addresses is the last that a start reads.
	require.Eventually(t, func() bool { return s.status("/v1/pay/card.png") == http.StatusOK }, patience, again)
	require.Equal(t, http.StatusOK, s.status("/v1/received"))
	return s
}

func (s *shop) status(path string) int {
	response, err := http.Get(s.url + path)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

// report is what GET /v1/received says, as far as the tests read it.
type report struct {
	Status, Definition string
	ReceivedUSD        json.Number `json:"receivedUsd"`
	Rails              []railReport
	Receipts           []struct{ ID, Rail, Status, Evidence, AmountAtomic string }
	Transitions        []struct {
		ID, To string
		Seq    int64
	}
	Next *string
}

type railReport struct {
	Rail, State        string
	Confirmed, Seen    *struct{ Count int64 }
	Refunded, Reversed *struct{ Count int64 }
	LastError, Source  *string
}

func (s *shop) received() report {
	s.t.Helper()
	return s.get("/v1/received")
}

func (s *shop) get(path string) (r report) {
	s.t.Helper()
	response, err := http.Get(s.url + path)
	require.NoError(s.t, err)
	defer response.Body.Close()
	require.Equal(s.t, http.StatusOK, response.StatusCode)
	require.NoError(s.t, json.NewDecoder(response.Body).Decode(&r))
	return r
}

func (s *shop) rail(name string) railReport {
	s.t.Helper()
	for _, rail := range s.received().Rails {
		if rail.Rail == name {
			return rail
		}
	}
	s.t.Fatalf("no rail %q", name)
	return railReport{}
}

// event is a delivery of the card processor; object are its own words.
func event(kind, id, object string) []byte {
	return fmt.Appendf(nil, `{"id":"evt_%s_%s","object":"event","type":%q,"livemode":true,"created":%d,"data":{"object":%s}}`,
		strings.ReplaceAll(kind, ".", "_"), id, kind, time.Now().Unix(), object)
}

// paid is the event of a paid checkout.
func paid(id string) []byte {
	return event("checkout.session.completed", id, fmt.Sprintf(`{"id":"cs_%s","object":"checkout.session","mode":"payment",
		"status":"complete","payment_status":"paid","amount_total":4200,"currency":"usd","livemode":true,"created":%d,
		"payment_intent":"pi_%[1]s","payment_link":"plink_1"}`, id, time.Now().Unix()+1))
}

// deliverCard posts an event with the signature that secret makes and returns the status.
func (s *shop) deliverCard(body []byte, secret string) int {
	s.t.Helper()
	now := time.Now().Unix()
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", now, body)
	request, err := http.NewRequest(http.MethodPost, s.url+"/v1/hook/card", bytes.NewReader(body))
	require.NoError(s.t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Stripe-Signature", fmt.Sprintf("t=%d,v1=%s", now, hex.EncodeToString(mac.Sum(nil))))
	return s.send(request)
}

// deliverSale posts the notice of a sale.
func (s *shop) deliverSale(sale, secret string) int {
	s.t.Helper()
	notice := url.Values{
		"sale_id": {sale}, "order_number": {"1"}, "product_id": {product}, "price": {"4200"}, "currency": {"usd"}, "seller_id": {"seller-1"},
		"email": {"buyer@example.org"}, "sale_timestamp": {time.Now().UTC().Add(time.Second).Format(time.RFC3339)},
	}
	request, err := http.NewRequest(http.MethodPost, s.url+"/v1/hook/tip-jar/"+secret, strings.NewReader(notice.Encode()))
	require.NoError(s.t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.send(request)
}

func (s *shop) send(request *http.Request) int {
	s.t.Helper()
	response, err := http.DefaultClient.Do(request)
	require.NoError(s.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	require.NotContains(s.t, string(body), storeSecret)
	return response.StatusCode
}
