package reload

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// doorsCaddyfile has one offer whose settlements no chain proves. {OFFER} is offerBlock, or nothing.
const doorsCaddyfile = `{
	admin 127.0.0.1:{ADMIN}
	persist_config off
	default_bind 127.0.0.1
	storage file_system {DIR}
	{LEDGER}
}
http://localhost:{PORT} {
	{OFFER}
	respond 404
}
`

const offerBlock = `pay_offer {
		base_url http://localhost:{PORT}
		description "{DESCRIPTION}"
		card https://checkout.example/pay
		usdc base-sepolia {PAYEE} {
			facilitator {FACILITATOR} {
				timeout 1m
			}
			rpc off
		}
	}
	route /members/* {
		pay_offer_gate {
			start /members/
		}
		reverse_proxy {APP}
	}
	route /first/* {
		pay_offer_gate {
			start /first/
			charge first
		}
		reverse_proxy {APP}
	}`

// door is where a payment is sent.
type door struct{ method, path string }

var (
	sponsor = door{http.MethodPost, "/v1/sponsor"}
	members = door{http.MethodGet, "/members/a"} // charged after the application has answered
	first   = door{http.MethodGet, "/first/a"}   // charged before
)

// content is what the application answers.
const content = "only payers read this"

// doors is a server with an offer and two gates.
type doors struct {
	*shop
	config  func(offer, description string) string
	arrived chan struct{} // has a value for each request at the application
	answer  chan struct{} // closed when the application may answer
}

func openDoors(t *testing.T) *doors {
	t.Helper()
	port, admin := payoffertest.FreePort(t), payoffertest.FreePort(t)
	d := &doors{shop: &shop{
		T: t, url: "http://localhost:" + port, admin: "127.0.0.1:" + admin, payee: chain.NewAddress(t), dir: t.TempDir(),
		chain: &chain.Chain{Network: chain.BaseSepolia}, facilitator: payoffertest.NewFacilitator(t),
	}, arrived: make(chan struct{}, 9), answer: make(chan struct{})}
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		d.arrived <- struct{}{}
		<-d.answer
		_, _ = w.Write([]byte(content))
	}))
	t.Cleanup(app.Close)
	values := strings.NewReplacer("{ADMIN}", admin, "{DIR}", d.dir, "{PORT}", port, "{PAYEE}", d.payee.Hex(), "{FACILITATOR}", d.facilitator.URL(), "{APP}", app.URL)
	d.config = func(offer, description string) string {
		ledger := ""
		if offer != "" {
			ledger = "pay_offer {\n\t\tledger sqlite " + d.path("ledger.db") + "\n\t}"
		}
		text := strings.NewReplacer("{LEDGER}", ledger, "{OFFER}", offer).Replace(doorsCaddyfile)
		return strings.ReplaceAll(values.Replace(text), "{DESCRIPTION}", description)
	}
	d.process = server.Start(t, d.url, d.config(offerBlock, "First words."))
	return d
}

// send sends a payment to a door.
func (d *doors) send(to door, payment http.Header) server.Answer {
	return server.Ask(server.Client, to.method, d.url+to.path, "", payment)
}

// requireSettled requires the answer to a payment that was charged, and what it has bought.
func (d *doors) requireSettled(to door, a server.Answer) {
	d.Helper()
	require.NotEmpty(d, transaction(a), "%d: %s", a.Status, a.Body)
	if to != sponsor {
		require.Equal(d, content, a.Body)
	}
}

// moments are when a payment waits: for the facilitator or for the application.
const atVerify, atSettle, atApplication = payoffertest.CallVerify, payoffertest.CallSettle, "application"

// hold makes the payment wait at a moment. await returns when it does, and release lets it go on.
func (d *doors) hold(moment string, reply payoffertest.FacilitatorReply) (await, release func()) {
	reply.Fault = payoffertest.FaultHang
	if moment == atApplication {
		return func() { <-d.arrived }, func() { close(d.answer) }
	}
	close(d.answer)
	d.facilitator.Script(moment, reply)
	return func() { d.facilitator.Await(moment, 1) }, d.facilitator.Release
}

// Two reloads and one that removes the offer happen while a payment waits. It is recorded all the same, once, and the
// gate answers what was bought. The offer that is put back goes on with it.
func TestPaymentRecordedAfterOfferRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		door   door
		moment string
		// back says that the offer is put back before the payment goes on.
		back bool
	}{
		"sponsor, during verify":                           {sponsor, atVerify, false},
		"sponsor, during settle":                           {sponsor, atSettle, false},
		"sponsor, during verify, and put back":             {sponsor, atVerify, true},
		"sponsor, during settle, and put back":             {sponsor, atSettle, true},
		"gate, during verify":                              {members, atVerify, false},
		"gate, during settle":                              {members, atSettle, false},
		"gate, in the application":                         {members, atApplication, false},
		"gate, in the application, and put back":           {members, atApplication, true},
		"gate that charges first, during verify":           {first, atVerify, false},
		"gate that charges first, during settle":           {first, atSettle, false},
		"gate that charges first, in the application":      {first, atApplication, false},
		"gate that charges first, during settle, put back": {first, atSettle, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openDoors(t)
			await, release := d.hold(c.moment, payoffertest.FacilitatorReply{})
			payment, answered := d.sign(chain.NewKey(t)), make(chan server.Answer, 1)
			go func() { answered <- d.send(c.door, payment) }()
			await()

			d.reload(d.config(offerBlock, "Other words."))
			d.reload(d.config(offerBlock, "Third words."))
			d.reload(d.config("", ""))
			server.Eventually(t, "the offer is removed", func() bool {
				return server.Ask(server.Client, http.MethodGet, d.url+"/v1/quote", "", nil).Status == http.StatusNotFound
			})
			if c.back {
				d.reload(d.config(offerBlock, "First words."))
			}
			release()
			paid := <-answered
			d.requireSettled(c.door, paid)
			if !c.back {
				d.reload(d.config(offerBlock, "First words."))
			}

			again := d.send(sponsor, payment)
			require.Equal(t, transaction(paid), transaction(again), "%d: %s", again.Status, again.Body)
			if c.door != sponsor {
				cookie, _, _ := strings.Cut(paid.Header.Get("Set-Cookie"), ";")
				require.Equal(t, content, d.send(c.door, http.Header{"Cookie": {cookie}}).Body)
			}
			require.Len(t, d.facilitator.Calls(payoffertest.CallSettle), 1)
		})
	}
}

// A payment that the facilitator refuses after the offer is removed opens nothing and says why.
func TestPaymentRefusedAfterOfferRemoved(t *testing.T) {
	for name, to := range map[string]door{"sponsor": sponsor, "gate": members, "gate that charges first": first} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openDoors(t)
			await, release := d.hold(atVerify, payoffertest.FacilitatorReply{Reason: "insufficient_funds"})
			payment, answered := d.sign(chain.NewKey(t)), make(chan server.Answer, 1)
			go func() { answered <- d.send(to, payment) }()
			await()
			d.reload(d.config(offerBlock, "Other words."))
			d.reload(d.config("", ""))
			release()
			refused := <-answered
			require.Equal(t, http.StatusPaymentRequired, refused.Status, refused.Body)
			require.Contains(t, refused.Body, "insufficient_funds")
			require.NotContains(t, refused.Body, content)
			require.Empty(t, d.facilitator.Calls(payoffertest.CallSettle))
		})
	}
}

// The process is asked to leave while a payment waits. It answers and records it, and the next process knows it.
func TestStopWaitsForPaymentAtGate(t *testing.T) {
	for name, c := range map[string]struct {
		door   door
		moment string
	}{
		"sponsor, during settle":                      {sponsor, atSettle},
		"gate, during settle":                         {members, atSettle},
		"gate, in the application":                    {members, atApplication},
		"gate that charges first, during settle":      {first, atSettle},
		"gate that charges first, in the application": {first, atApplication},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openDoors(t)
			await, release := d.hold(c.moment, payoffertest.FacilitatorReply{})
			payment, answered := d.sign(chain.NewKey(t)), make(chan server.Answer, 1)
			go func() { answered <- d.send(c.door, payment) }()
			await()
			d.process.Terminate()
			server.Eventually(t, "the port is closed", func() bool {
				conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
				if err == nil {
					_ = conn.Close()
				}
				return err != nil
			})
			release()
			d.process.Await(t)
			paid := <-answered
			d.requireSettled(c.door, paid)

			server.Start(t, d.url, d.config(offerBlock, "First words."))
			again := d.send(sponsor, payment)
			require.Equal(t, transaction(paid), transaction(again), "%d: %s", again.Status, again.Body)
			require.Len(t, d.facilitator.Calls(payoffertest.CallSettle), 1)
		})
	}
}
