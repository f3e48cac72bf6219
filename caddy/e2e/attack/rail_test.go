package attack

import (
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
)

// honest is how many buyers come during an attack.
const honest = 12

// Somebody without money sends, twice a second, payments on which the facilitator throws. Whoever has money pays.
func TestForgedPaymentsDoNotShutTheRail(t *testing.T) {
	t.Parallel()
	m := openMarket(t, honest)
	facilitator := m.facilitator()
	s := openShop(m, m.payee(), usual, rail{"base-sepolia", m.chain.URL, []string{facilitator}})
	s.requireAllPay(s.storm(forgeries, func(payment) {}), node.BuyerV2)
}

// Somebody without money has found payments, well formed and well signed, over which the facilitator broods for ever.
func TestPaymentsThatHangTheFacilitatorDoNotShutTheRail(t *testing.T) {
	t.Parallel()
	m := openMarket(t, honest)
	var forged sync.Map
	official := m.facilitator()
	facilitator := m.proxy(official, func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		if _, known := forged.Load(common.HexToAddress(readPayment(body).From)); !known || r.URL.Path != "/verify" {
			return false
		}
		<-r.Context().Done()
		return true
	})
	s := openShop(m, m.payee(), usual, rail{"base-sepolia", m.chain.URL, []string{facilitator}})
	brooding := []forgery{{"nothing forged", 2, func(*payment) {}}, {"a contract wallet's signature", 2, wallet}}
	mark := func(p payment) { forged.Store(p.From, true) }
	attack := s.storm(brooding, mark)
	for n := range 100 { // and all at once, from as many addresses
		p := s.sign(s.stranger())
		brooding[n%2].spoil(&p)
		mark(p)
		attack.work.Go(func() { s.forge(attack, 2, p, "192.0.2."+strconv.Itoa(n)) })
	}
	s.requireAllPay(attack, node.BuyerV2)
}

// wallet makes the signature a well-formed one of a contract wallet (ERC-6492): the address of its factory, what to call there,
// and the signature for the wallet.
func wallet(p *payment) {
	word := func(n int64) string { return common.BigToHash(big.NewInt(n)).Hex()[2:] }
	p.signature = "0x" + word(0xfac) + word(0x60) + word(0xa0) + // the factory, and where the other two stand
		word(4) + "deadbeef" + strings.Repeat("0", 56) + // what to call
		word(65) + p.signature.(hexutil.Bytes).String()[2:] + strings.Repeat("0", 62) + suffix
}

// requireAllPay has honest buyers come while an attack goes on, each from an address of its own, with an official client that
// signs anew until it has its 200: a busy machine may be too slow for the first try of some, but not of all. Each is charged
// once.
func (s *shop) requireAllPay(attack *storm, client node.Buyer) {
	s.Helper()
	before, begin := attack.answered.Load(), time.Now()
	var purchases []node.Purchase
	for n := range honest {
		purchases = append(purchases, node.Purchase{
			URL: s.url + "/v1/sponsor", Key: s.buyer(), Client: client, Address: "198.51.100." + strconv.Itoa(1+n),
		})
	}
	all := node.Retry(s, purchases, patience)
	took, forged := time.Since(begin), attack.answered.Load()-before
	attack.stop()
	attack.work.Wait()

	paid, atOnce := 0, 0
	for n, bought := range all {
		if bought.Status != http.StatusOK {
			assert.Failf(s, "not paid", "buyer %d: %v %s", n, bought.Answers, bought.Body)
			continue
		}
		paid++
		if len(bought.Answers) == 1 {
			atOnce++
		}
		assert.Equal(s, []common.Hash{bought.Payment.Transaction}, s.charges(s.payee, purchases[n].Key))
	}
	s.Logf("of %d buyers %d paid in %v, %d of them at once, while %d forged payments were answered",
		honest, paid, took.Round(time.Second), atOnce, forged)
	require.Equal(s, honest, paid)
	require.Len(s, s.chain.TransfersTo(s, s.payee), honest)
	require.Zero(s, attack.paid.Load(), "a forged payment was taken")
}
