// Package reload proves that a reload of the configuration loses nothing: the built binary is reloaded through the admin API.
// Package soak reloads it every second under traffic.
package reload

import (
	"crypto/ecdsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// price is 42 USDC in atomic units.
const price = 42_000_000

// sign makes the header of a new payment, as a version 2 client sends it.
func (s *shop) sign(buyer *ecdsa.PrivateKey) http.Header {
	s.Helper()
	a := chain.NewAuthorization(s, chain.Address(buyer), s.payee, price)
	return chain.Payment(s, a.Payload(a.Sign(s, buyer)))
}

// pay sends a payment, the same one until it is answered. It may be called beside the test's goroutine.
func (s *shop) pay(client *http.Client, payment http.Header) server.Answer {
	return server.Ask(client, http.MethodPost, s.url+"/v1/sponsor", "", payment)
}

// transaction is what the answer to a payment names; empty for any but a 200.
func transaction(a server.Answer) string {
	var response struct {
		Success     bool
		Transaction string
	}
	data, err := base64.StdEncoding.DecodeString(a.Header.Get("PAYMENT-RESPONSE"))
	if a.Status != http.StatusOK || err != nil || json.Unmarshal(data, &response) != nil || !response.Success {
		return ""
	}
	return response.Transaction
}

// requirePaid pays and requires the 200.
func (s *shop) requirePaid(buyer *ecdsa.PrivateKey) string {
	s.Helper()
	a := s.pay(server.Client, s.sign(buyer))
	require.NotEmpty(s, transaction(a), "%d: %s", a.Status, a.Body)
	return transaction(a)
}

// requireCharged compares the chain with what the answers to the payments named: each happened, once.
func (s *shop) requireCharged(transactions []string) {
	s.Helper()
	var charged []string
	for _, transfer := range s.chain.TransfersTo(s, s.payee) {
		require.Equal(s, big.NewInt(price), transfer.Value)
		charged = append(charged, transfer.Tx.Hex())
	}
	require.ElementsMatch(s, transactions, charged)
}

// hold makes the facilitator wait with each broadcast until release.
func (s *shop) hold() (release func()) {
	held := make(chan struct{})
	s.held.Store(&held)
	return func() { close(held) }
}

// broadcast is what the facilitator does: as the reference one, it tries a call before it pays for it, and answers when
// the transaction is in a block.
func (s *shop) broadcast(settlement payoffertest.Settlement) (string, error) {
	if held := s.held.Load(); held != nil {
		<-*held
	}
	hash, err := s.chain.Broadcast(s, settlement)
	if err != nil {
		return "", err
	}
	s.chain.Mine(s, 1)
	if !s.chain.Succeeded(s, hash) {
		return "", errors.New("the transaction was reverted")
	}
	return hash.Hex(), nil
}

// Lines of the module's log that the test causes: the first by a request, the others in the background.
const (
	logNoAnswer     = "facilitator did not verify a payment"
	logNotAnnounced = "notification failed; it is retried"
	logAskedAgain   = "facilitator is up again"
)

// A reload fails because another app does not start, before or after this module's, for Caddy starts them in any order. The
// old configuration goes on as if nothing had happened: it answers, pays, announces and logs, and no line goes to the log of
// the one that failed.
func TestFailedReloadKeepsOldConfiguration(t *testing.T) {
	t.Parallel()
	s := openShop(t, logTo("old.log"))
	limited, buyers := s.exhaust(), []*ecdsa.PrivateKey{s.chain.Buyers[0], s.chain.Buyers[1], s.chain.Payer}
	s.awaitHealth()
	before := s.state(limited)

	taken := lab.Must(net.Listen("tcp4", "127.0.0.1:0"))(t)
	defer taken.Close()
	port := taken.Addr().String()[len("127.0.0.1:"):]
	for n := range 16 {
		failing := s.config(descriptions[n%2], logTo("failed.log")) +
			"http://localhost:" + port + " {\n\trespond 404\n}\n"
		a := lab.Must(server.Load(s.admin, failing))(t)
		require.NotEqual(t, http.StatusOK, a.Status)
		require.Contains(t, a.Body, "address already in use")
		require.Equal(t, before, s.state(limited), "reload %d", n+1)
	}

	require.Contains(t, server.Get(t, s.url+"/openapi.json", ""), descriptions[0])
	require.NotContains(t, server.Get(t, s.url+"/v1/pay", "text/html"), descriptions[1])
	body, header := server.CardPaid("1", 4200, cardSecret)
	require.Equal(t, http.StatusOK, server.Ask(server.Client, http.MethodPost, s.url+"/v1/hook/card", body, header).Status)
	body, header = server.StorefrontSale("sale-1", 4200)
	require.Equal(t, http.StatusOK, server.Ask(server.Client, http.MethodPost, s.url+"/v1/hook/tip-jar/"+storeSecret, body, header).Status)
	first := s.requirePaid(buyers[0])
	s.awaitAnnounced(first)
	output, err := server.Command(t, "", "record", "--address", s.admin, "--offer", "shop", "--rail", "transfer", "--reference", "INV-1", "--amount", "42")
	require.NoError(t, err, output)
	s.awaitAnnounced("transfer:INV-1:1")

	s.facilitator.Script(payoffertest.CallVerify, payoffertest.FacilitatorReply{Status: http.StatusInternalServerError}, payoffertest.FacilitatorReply{})
	require.Equal(t, http.StatusServiceUnavailable, s.pay(server.Client, s.sign(buyers[1])).Status)
	s.receiver.Down()
	second := s.requirePaid(buyers[2])
	s.broken.Release() // it works from now on
	for _, line := range []string{logNoAnswer, logNotAnnounced, logAskedAgain} {
		server.Eventually(t, "the log says: "+line, func() bool {
			log := lab.Must(os.ReadFile(s.path("old.log")))(t)
			return strings.Contains(string(log), line)
		})
		log, _ := os.ReadFile(s.path("failed.log")) // which there may be none of
		require.NotContains(t, string(log), line)
	}
	s.receiver.Up()
	s.awaitAnnounced(second)
	s.requireCharged([]string{first, second})
}

// awaitAnnounced returns when the receiver was told of something.
func (s *shop) awaitAnnounced(what string) {
	s.Helper()
	server.Eventually(s, what+" is announced", func() bool {
		for _, request := range s.receiver.Requests() {
			if strings.Contains(string(request.Body), what) {
				return true
			}
		}
		return false
	})
}

// receipts are those of a rail: how many there are of each status.
func (s *shop) receipts(rail string) map[string]int {
	s.Helper()
	var report struct {
		Receipts []struct{ Rail, Status string }
	}
	require.NoError(s, json.Unmarshal([]byte(server.Get(s, s.url+"/v1/received", "")), &report))
	found := make(map[string]int)
	for _, r := range report.Receipts {
		if r.Rail == rail {
			found[r.Status]++
		}
	}
	return found
}

func (s *shop) awaitBitcoins(what string, want map[string]int) {
	s.Helper()
	server.Eventually(s, what, func() bool { return maps.Equal(want, s.receipts("btc")) })
}

// Who puts an address in the place of a key, and a key in the place of an address, keeps the money that was under way, and what comes late.
func TestReplacedBitcoinKeyIsObserved(t *testing.T) {
	const first, second = "tb1q6rz28mcfaxtmd6v789l9rrlrusdprr9pqcpvkl", "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx"
	s := openShop(t, "")
	replaced := func(words string) string {
		return strings.Replace(s.config(words, ""), "bitcoin "+vpub, "bitcoin "+second, 1)
	}

	underWay := s.coins.Payment(t, first, 50_000)
	s.coins.Send(t, underWay)
	s.reload(replaced("An address."))
	require.Contains(t, server.Get(s, s.url+"/v1/pay/btc.uri", ""), second, "what was replaced is not published")
	s.awaitBitcoins("seen at the former key", map[string]int{"seen": 1})

	late := s.coins.Payment(t, first, 60_000)
	s.coins.Mine(t, underWay, late)
	s.coins.MineEmpty(t, 1)
	s.reload(replaced("The same address."))
	s.awaitBitcoins("what was under way, and what came late", map[string]int{"confirmed": 2})
	server.Eventually(s, "the new address is read", func() bool { // whose blocks are dated before the first start
		state := rails(server.Get(s, s.url+"/v1/received", ""))
		require.Equal(t, "btc", state[2].Rail)
		return state[2].State == "observed"
	})

	// All of it is in one offer, and none of it twice.
	s.reload(replaced("Still that address."))
	s.coins.Mine(t, s.coins.Payment(t, second, 70_000))
	s.coins.MineEmpty(t, 1)
	s.reload(s.config("Back again.", ""))
	s.awaitBitcoins("the address, which is a former one now", map[string]int{"confirmed": 3})
	s.reload(s.config("And once more.", ""))
	s.awaitBitcoins("nothing twice", map[string]int{"confirmed": 3})
}

// descriptions are those of the changed configurations, in turn.
var descriptions = []string{"First words.", "Other words."}

// Right after a reload in which nothing else happens, all that was known is known. Only the rate limits start again.
func TestReloadKeepsHealth(t *testing.T) {
	t.Parallel()
	s := openShop(t, "")
	limited := s.exhaust()
	s.awaitHealth()
	before := s.state(limited)
	require.Equal(t, http.StatusTooManyRequests, before.limited)
	require.NotEmpty(t, before.bitcoin)
	s.facilitator.Script(payoffertest.CallVerify, payoffertest.FacilitatorReply{Reason: "insufficient_funds"})
	before.limited = http.StatusPaymentRequired
	for n := range 6 {
		s.reload(s.config(descriptions[n/3], "")) // the fourth one changes it
		require.Equal(t, before, s.state(limited), "reload %d", n+1)
	}
}

// A settlement goes on while the configuration is replaced, and the new one does not wait for it: the facilitator takes
// longer than the reload, and might take a minute.
func TestReloadDoesNotWaitForSettlement(t *testing.T) {
	t.Parallel()
	s := openShop(t, "")
	var transactions []string
	for n, buyer := range s.chain.Buyers {
		release := s.hold()
		paid, payment := make(chan server.Answer, 1), s.sign(buyer)
		go func() { paid <- s.pay(server.Client, payment) }()
		s.facilitator.Await(payoffertest.CallSettle, n+1)
		loaded, err := server.Load(s.admin, s.config(descriptions[n], ""))
		release()
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, loaded.Status, loaded.Body)
		a := <-paid
		require.NotEmpty(t, transaction(a), "%d: %s", a.Status, a.Body)
		transactions = append(transactions, transaction(a))
	}
	s.requireCharged(transactions)
	require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 2)
}
