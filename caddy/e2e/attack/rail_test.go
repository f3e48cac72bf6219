package attack

import (
	"bytes"
	"encoding/json"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// honest is how many buyers come during an attack.
const honest = 12

// Somebody without money sends, twice a second, payments on which the facilitator throws. Whoever has money pays.
func TestForgedPaymentsDoNotBlockRail(t *testing.T) {
	t.Parallel()
	m := openMarket(t, honest)
	facilitator := m.facilitator()
	s := openShop(m, m.payee(), usual, rail{"base-sepolia", m.chain.URL, []string{facilitator}})
	s.requireAllPay(s.storm(forgeries, func(payment) {}), node.BuyerV2)
}

// Somebody without money has found payments, well formed and well signed, over which the facilitator broods for ever.
func TestHangingPaymentsDoNotBlockRail(t *testing.T) {
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

// What the official facilitator settles for contract wallets is taken here, by x402 and by the Payment scheme.
func TestContractWalletsPayByOfficialFacilitator(t *testing.T) {
	t.Parallel()
	m := openMarket(t, 1)
	facilitator := m.facilitator()
	s := openShop(m, m.payee(), unlimited, rail{"base-sepolia", m.chain.URL, []string{facilitator}})
	for _, kind := range chain.WalletKinds {
		account := m.chain.OpenWallet(t, kind)
		for _, way := range []string{"HTTP version 2", "MPP"} {
			p := s.sign(m.chain.Owner, func(a *chain.Authorization) { a.From = account.Address })
			p.signature = account.Sign(t, p.Authorization)
			before := len(s.chargesOf(account.Address))
			answers := s.followBy(transports[way], p, decided)
			a := answers[len(answers)-1]
			require.NoError(t, a.err)
			require.Equal(t, http.StatusOK, a.status, "%s by %s: %s", kind, way, a.text)
			require.Len(t, s.chargesOf(account.Address), before+1, "%s by %s", kind, way)
		}
	}
}

// chargesOf are the transfers from an account to the shop.
func (s *shop) chargesOf(account common.Address) (charges []chain.Transfer) {
	s.Helper()
	for _, transfer := range s.chain.TransfersTo(s, s.payee) {
		if transfer.From == account {
			charges = append(charges, transfer)
		}
	}
	return charges
}

// A meddler stands before a server: it reports whether it has answered the request, whose body it is given.
type meddler func(w http.ResponseWriter, r *http.Request, body []byte) (answered bool)

// proxy starts a server that passes on what the meddler does not answer. The meddler runs beside the test's goroutine.
func (m *market) proxy(target string, meddle meddler) string {
	m.Helper()
	to, err := url.Parse(target)
	require.NoError(m, err)
	passing := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !meddle(w, r, body) {
			passing.ServeHTTP(w, r)
		}
	}))
	m.Cleanup(func() {
		proxy.CloseClientConnections()
		proxy.Close()
	})
	return proxy.URL
}

// readPayment reads what a facilitator is asked to verify or settle, or what a buyer sends; what is neither has no nonce.
func readPayment(body []byte) (p payoffertest.Settlement) {
	type payload struct {
		Payload struct {
			Signature     string
			Authorization payoffertest.Settlement
		}
	}
	var request struct {
		PaymentPayload payload // of a facilitator
		payload                // of a buyer
	}
	_ = json.Unmarshal(body, &request)
	for _, found := range []payload{request.PaymentPayload, request.payload} {
		if found.Payload.Authorization.Nonce != "" {
			p = found.Payload.Authorization
			p.Signature = found.Payload.Signature
		}
	}
	return p
}

// settle makes a payment, as facilitators do, and returns the transaction's hash. It may run beside the test's goroutine.
func (m *market) settle(p payoffertest.Settlement) (string, error) {
	m.sending.Lock()
	hash, err := m.chain.Broadcast(m, p)
	m.sending.Unlock()
	if err == nil {
		err = m.awaitBlock(hash)
	}
	return hash.Hex(), err
}
