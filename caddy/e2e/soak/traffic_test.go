package soak

import (
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// request is one use of the offer: how it must be answered, and on what of the world that rests.
type request struct {
	method, path, accept string
	want                 int
	body                 func(*shop) (string, http.Header)
	rests                []part
}

func (r request) String() string { return strings.TrimSpace(r.method + " " + r.path + " " + r.accept) }

// requests are those of people, programs, agents, the card processor and a storefront.
var requests = []request{
	{method: "GET", path: "/openapi.json", want: 200},
	{method: "GET", path: "/.well-known/agent-card.json", want: 200},
	{method: "GET", path: "/llms.txt", want: 200},
	{method: "GET", path: "/v1/pay", accept: "text/html", want: 200},
	{method: "GET", path: "/v1/pay/card.uri", want: 200},
	{method: "GET", path: "/v1/pay/card.png", want: 302},
	{method: "GET", path: "/v1/pay/btc.uri", want: 200, rests: []part{rates}},
	{method: "GET", path: "/v1/quote", want: 402},
	{method: "POST", path: "/v1/sponsor", want: 402},
	{method: "POST", path: "/mcp", want: 200, body: toolCall},
	{method: "GET", path: "/v1/received", want: 200, rests: []part{database}},
	{method: "GET", path: "/v1/received", accept: "text/html", want: 200, rests: []part{database}},
	{method: "GET", path: "/v1/received?after=0", want: 200, rests: []part{database}},
	{method: "POST", path: "/v1/hook/card", want: 200, body: (*shop).cardEvent, rests: []part{database}},
	{method: "POST", path: "/v1/hook/tip-jar/" + storeSecret, want: 200, body: (*shop).sale, rests: []part{database}},
}

func toolCall(*shop) (string, http.Header) {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"first_42_sponsor"}}`, http.Header{"Content-Type": {"application/json"}}
}

// cardEvent is a new delivery of the card processor.
func (s *shop) cardEvent() (string, http.Header) {
	return server.CardPaid(fmt.Sprint(s.deliveries.Add(1)), 30, cardSecret)
}

// sale is a notice of the storefront, which records nothing.
func (s *shop) sale() (string, http.Header) { return server.StorefrontSale("sale-1", 30) }

const (
	// clients are those that ask at the same time.
	clients = 3
	// steady is how often a client asks when it has asked for everything.
	steady = 200 * time.Millisecond
)

// crowd are clients that ask for everything again and again.
type crowd struct {
	shop    *shop
	stop    atomic.Bool
	clients sync.WaitGroup
	answers atomic.Int64
}

// visitors let three clients loose, one of which keeps no connection. They ask for everything at once, and then steadily.
func (s *shop) visitors() *crowd {
	c := &crowd{shop: s}
	for i := range clients {
		c.clients.Go(func() {
			client := &http.Client{Timeout: patience, CheckRedirect: s.client.CheckRedirect, Transport: &http.Transport{DisableKeepAlives: i == 0}}
			defer client.CloseIdleConnections()
			for n := 0; n < len(requests) || !c.stop.Load(); n++ {
				c.ask(client, requests[(n+i*len(requests)/clients)%len(requests)])
				if n >= len(requests) {
					time.Sleep(steady)
				}
			}
		})
	}
	return c
}

// ask sends a request until there is an answer: a connection ends with the configuration that took it.
func (c *crowd) ask(client *http.Client, r request) {
	caused, body, header := c.shop.now.Load(), "", http.Header{}
	if r.body != nil {
		body, header = r.body(c.shop)
	}
	if r.accept != "" {
		header.Set("Accept", r.accept)
	}
	for deadline := time.Now().Add(patience); ; {
		a, err := server.Do(client, r.method, c.shop.url+r.path, body, header)
		c.answers.Add(1)
		switch {
		case err == nil && r.body != nil && a.Status == http.StatusServiceUnavailable && caused.touches[database] && time.Now().Before(deadline):
			c.shop.answered(r.String(), a.Status, r.want, a.Body, caused, r.rests...)
			time.Sleep(again) // a webhook is sent again until it is taken
			continue
		case err == nil:
			c.shop.answered(r.String(), a.Status, r.want, a.Body, caused, r.rests...)
			return
		case time.Now().After(deadline):
			c.shop.found.Add(r.String()+": no answer", err.Error())
			return
		}
	}
}

// awaitAll returns when there are as many answers as each client needs for everything. Some may wait for what is disturbed.
func (c *crowd) awaitAll() {
	c.shop.Helper()
	server.Eventually(c.shop, "everything is asked for", func() bool { return c.answers.Load() >= int64(clients*len(requests)) })
}

// end waits for the last answers.
func (c *crowd) end() {
	c.stop.Store(true)
	c.clients.Wait()
}

// everything is more than there is of anything.
const everything = 1_000_000

// requireAccounted ends the server and compares its ledger, its announcements and the chain: every payment that was answered
// 200 is one transfer, one receipt and one settled intent, and every webhook that was taken is one receipt.
func (s *shop) requireAccounted() {
	s.Helper()
	server.Eventually(s, "every transfer is confirmed", func() bool { return server.Confirmed(s.url, "usdc") == len(s.paid) })
	server.Eventually(s, "every transfer is announced", func() bool { return s.announced("usdc") == len(s.paid) })
	s.process.Terminate()
	s.process.Await(s)
	book := ledger.NewSQLite(s.ledger, time.Now)
	if s.database != nil {
		book = lab.Must(ledger.NewPostgres(s.ledger, time.Now))(s)
	}
	require.NoError(s, book.Open(s.Context()))
	defer func() { require.NoError(s, book.Close()) }()
	require.NoError(s, book.Check(s.Context()))

	receipts := lab.Must(book.Receipts(s.Context(), "shop", 0, everything))(s)
	rows := map[string]int{}
	for _, r := range receipts {
		rows[r.Rail]++
		rows[r.ExternalID]++
		if r.Rail == "usdc" {
			require.Equal(s, ledger.StatusConfirmed, r.Status, "%+v", r)
			require.EqualValues(s, price, r.Amount)
		}
	}
	transfers := s.chain.TransfersTo(s, s.payee)
	named, charged := []string{}, []string{}
	for _, p := range s.paid {
		named = append(named, p.transaction)
	}
	for _, transfer := range transfers {
		charged = append(charged, transfer.Tx.Hex())
	}
	require.ElementsMatch(s, named, charged, "each answer 200 names a transfer of its own, and there is no other")
	for _, transfer := range transfers {
		id := fmt.Sprintf("eip155:%d:%s:%d", s.chain.ID, transfer.Tx.Hex(), transfer.Ordinal)
		require.Equal(s, 1, rows[id], "the receipts of %s", id)
	}
	require.Equal(s, len(s.paid), rows["usdc"], "no receipt without a transfer")
	require.Equal(s, big.NewInt(int64(len(s.paid))*price), s.chain.BalanceOf(s, s.payee))
	require.EqualValues(s, s.deliveries.Load(), rows["card"], "one receipt for each webhook")
	for _, p := range s.paid {
		intent, known, err := book.Intent(s.Context(), ledger.IntentKey{
			Network: "eip155:" + strconv.FormatInt(s.chain.ID, 10), Asset: s.chain.USDC.Hex(), From: p.From.Hex(), Nonce: p.Nonce.Hex(),
		})
		require.NoError(s, err)
		require.True(s, known)
		require.Equal(s, ledger.IntentSettled, intent.State, "%+v", intent)
		require.Equal(s, ledger.EvidenceChain, intent.Evidence, "%+v", intent)
	}
}

// announced is how many receipts of a rail the receiver was told of.
func (s *shop) announced(rail string) int {
	told := map[string]bool{}
	for _, a := range s.receiver.Requests() {
		var event struct {
			Data struct{ Rail, ExternalID string }
		}
		if a.Taken && json.Unmarshal(a.Body, &event) == nil && event.Data.Rail == rail {
			told[event.Data.ExternalID] = true
		}
	}
	return len(told)
}

// part is what an answer may rest on.
type part int

const (
	facilitators part = iota
	rates
	database
)

// disturbance is something in the world that fails for a while. What it touches may be answered 503 meanwhile.
type disturbance struct {
	name       string
	touches    map[part]bool
	begin, end func()
}

// disturbances are all, each after a calm.
func (s *shop) disturbances() (all []disturbance) {
	refused := payoffertest.FacilitatorReply{Status: http.StatusInternalServerError}
	first, second := s.facilitators[0], s.facilitators[1]
	failing := []disturbance{
		{"the first facilitator, which refuses to verify", map[part]bool{facilitators: true},
			func() { first.Script(payoffertest.CallVerify, refused) }, func() { first.Script(payoffertest.CallVerify) }},
		{"the second facilitator, which settles and does not say so", map[part]bool{facilitators: true},
			func() {
				second.Script(payoffertest.CallSettle, payoffertest.FacilitatorReply{Fault: payoffertest.FaultCloseActed})
			},
			func() { second.Script(payoffertest.CallSettle) }},
		{"the first facilitator, which settles and does not say so", map[part]bool{facilitators: true},
			func() {
				first.Script(payoffertest.CallSettle, payoffertest.FacilitatorReply{Fault: payoffertest.FaultCloseActed})
			},
			func() { first.Script(payoffertest.CallSettle) }},
		{"the price sources", map[part]bool{rates: true},
			func() { s.rates.SetAll(payoffertest.PriceReply{Status: http.StatusInternalServerError}) },
			func() { s.rates.SetAll(payoffertest.PriceReply{Price: "90000"}) }},
	}
	if s.database != nil {
		failing = append(failing, disturbance{"the database, which is restarted", map[part]bool{database: true},
			func() { s.database.Stop(s) }, func() { s.database.Start(s) }})
	}
	for _, d := range failing {
		all = append(all, disturbance{name: "nothing", begin: func() {}, end: func() {}}, d)
	}
	return all
}

// answered notes an answer that is not what it should be, unless something in the world caused it.
func (s *shop) answered(what string, status, want int, detail string, caused *disturbance, rests ...part) {
	s.answers.Add(1)
	if status == want {
		return
	}
	if status == http.StatusServiceUnavailable {
		for _, d := range []*disturbance{caused, s.now.Load()} {
			if slices.ContainsFunc(rests, func(p part) bool { return d.touches[p] }) {
				return
			}
		}
	}
	s.found.Add(fmt.Sprintf("%s: status %d instead of %d", what, status, want), fmt.Sprintf("during %q: %.300s", caused.name, detail))
}
