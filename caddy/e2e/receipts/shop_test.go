// Package receipts tests what the built binary takes for received money, what it says when it cannot know, and whom it
// notifies.
package receipts

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	cardSecret  = "whsec_of_the_card_rail"
	storeSecret = "0123456789abcdef0123456789abcdef"
	product     = "product-1"
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
	s.awaitStart()
	require.Equal(t, http.StatusOK, s.status("/v1/received"))
	return s
}

func (s *shop) awaitStart() {
	s.t.Helper()
	server.Eventually(s.t, "the service has started", func() bool { return s.status("/v1/pay/card.png") == http.StatusFound })
}

func (s *shop) status(path string) int {
	a, _ := server.Do(server.Client, http.MethodGet, s.url+path, "", nil)
	return a.Status
}

// get reads a report.
func (s *shop) get(path string) (r report) {
	s.t.Helper()
	require.NoError(s.t, json.Unmarshal([]byte(server.Get(s.t, s.url+path, "")), &r))
	return r
}

// post delivers a webhook, and returns the status.
func (s *shop) post(path, body string, header http.Header) int {
	s.t.Helper()
	a, err := server.Do(server.Client, http.MethodPost, s.url+path, body, header)
	require.NoError(s.t, err)
	require.NotContains(s.t, a.Body, storeSecret)
	return a.Status
}

// pay delivers the event of a paid checkout.
func (s *shop) pay(id string) int {
	s.t.Helper()
	body, header := server.CardPaid(id, 4200, cardSecret)
	return s.post("/v1/hook/card", body, header)
}

// sell delivers a storefront's notice of a sale.
func (s *shop) sell(secret string) int {
	s.t.Helper()
	body, header := server.StorefrontSale("sale-1", 4200)
	return s.post("/v1/hook/tip-jar/"+secret, body, header)
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
