package crash

import (
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const (
	// again is how long a buyer waits before the same payment is sent again.
	again = 100 * time.Millisecond
	// patience is how long a buyer tries. It is less than an authorization is valid: nothing is refused in that time.
	patience = 3 * time.Minute
)

// payment is a signed payment of the price.
type payment struct {
	chain.Authorization
	path, header string
	// answer is the answer with status 200, once there was one.
	answer answer
}

// answer is what a buyer keeps of an answer.
type answer struct {
	status   int
	response string // the header PAYMENT-RESPONSE
	body     string
}

// key is the payment's name in the ledger.
func (p *payment) key() ledger.IntentKey {
	return ledger.IntentKey{
		Network: "eip155:" + strconv.Itoa(chain.ID), Asset: chain.USDC.Hex(), From: p.From.Hex(), Nonce: p.Nonce.Hex(),
	}
}

// newPayment signs one, as a version 2 client does, with a payment identifier unless id is empty.
func newPayment(t *testing.T, buyer *ecdsa.PrivateKey, payee common.Address, path, id string) *payment {
	t.Helper()
	p := &payment{path: path, Authorization: chain.NewAuthorization(t, chain.Address(buyer), payee, price)}
	payload := p.Payload(p.Sign(t, buyer))
	// A client repeats the token of its quote. With it a repeated payment gets the same response.
	extensions := map[string]any{"access": map[string]any{"info": map[string]any{"token": rand.Text()}}}
	if id != "" {
		extensions["payment-identifier"] = map[string]any{"info": map[string]any{"required": false, "id": id}}
	}
	payload["extensions"] = extensions
	p.header = chain.Payment(t, payload).Get(x402.HeaderSignature)
	return p
}

// send sends the payment once. An error is a connection that failed, as that to a killed server.
func (p *payment) send(client *http.Client, url string) (answer, error) {
	a, err := server.Do(client, http.MethodPost, url+p.path, "", http.Header{x402.HeaderSignature: {p.header}})
	got := answer{a.Status, a.Header.Get(x402.HeaderResponse), a.Body}
	if p.path != paths[0] && err == nil && (got.status == http.StatusOK) != (got.body == content) {
		err = fmt.Errorf("status %d with the body %q", got.status, got.body)
	}
	return got, err
}

// ask sends the payment until it is answered for good.
func (p *payment) ask(client *http.Client, url string) (got answer, err error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(again) {
		got, err = p.send(client, url)
		if err == nil && (got.status != http.StatusServiceUnavailable || p.untaken(got)) {
			break
		}
	}
	return got, err
}

// untaken reports whether an answer says that the payment was never taken and has expired: for good, or while the time of
// the simulated chain is behind.
func (p *payment) untaken(got answer) bool {
	return got.status == http.StatusPaymentRequired || time.Now().Unix() > p.ValidBefore &&
		got.status == http.StatusServiceUnavailable && strings.Contains(got.body, "authorization_valid_before")
}

// settle asks for the answer, which must be a 200 and the same as before. It may run beside the test's goroutine, and
// reports whether all is well.
func (p *payment) settle(t *testing.T, client *http.Client, url string) bool {
	got, err := p.ask(client, url)
	if !assert.NoError(t, err) || !assert.Equal(t, http.StatusOK, got.status, got.body) {
		return false
	}
	return p.keep(t, got)
}

// keep keeps an answer with status 200, which must be the same as before. A gate confirms the charge only once.
func (p *payment) keep(t *testing.T, got answer) bool {
	if p.path != paths[0] {
		got.response = ""
	}
	if p.answer == (answer{}) {
		p.answer = got
	}
	return assert.Equal(t, p.answer, got, "a payment that was answered gets the same answer")
}

// purchase is what a buyer wants once whose client signs anew at every try, as the official ones do.
type purchase struct {
	buyer *ecdsa.PrivateKey
	path  string
	// id is its payment identifier, which half of them have, or empty.
	id string
	// payments are all that were signed for it, and named is the transaction of the 200 that the buyer holds.
	payments []*payment
	named    common.Hash
}

// insistence is how long such a buyer tries: an authorization that was sent and lost may have to run out before.
const insistence = 2 * patience

// purchase begins the one purchase of a buyer.
func (s *shop) purchase(buyer *ecdsa.PrivateKey) *purchase {
	p := &purchase{buyer: buyer, path: s.path()}
	if len(s.purchases)%2 == 0 {
		p.id = rand.Text()
	}
	s.purchases = append(s.purchases, p)
	return p
}

// sign signs one more payment for a purchase.
func (s *shop) sign(t *testing.T, p *purchase) *payment {
	signed := newPayment(t, p.buyer, s.payee, p.path, p.id)
	s.signing.Lock()
	defer s.signing.Unlock()
	p.payments = append(p.payments, signed)
	return signed
}

// insist signs anew after every answer that is no 200 and after every lost connection.
func (s *shop) insist(t *testing.T, p *purchase) {
	var got answer
	var err error
	for deadline := time.Now().Add(insistence); time.Now().Before(deadline); time.Sleep(again) {
		got, err = s.sign(t, p).send(s.client, s.url)
		if err == nil && got.status == http.StatusOK {
			p.named, err = got.transaction()
			assert.NoError(t, err)
			return
		}
	}
	assert.Fail(t, "a buyer who signs anew gets no 200", "%+v %v", got, err)
}

// transaction is the one that a 200 names.
func (a answer) transaction() (common.Hash, error) {
	var response struct{ Transaction common.Hash }
	data, err := base64.StdEncoding.DecodeString(a.response)
	if err == nil {
		err = json.Unmarshal(data, &response)
	}
	return response.Transaction, err
}

// charged are the payments of a purchase that the facilitator has broadcast.
func (s *shop) charged(p *purchase) []*payment {
	s.signing.Lock()
	defer s.signing.Unlock()
	return slices.DeleteFunc(slices.Clone(p.payments), func(p *payment) bool {
		return s.market.facilitator.Settled(p.Nonce.Hex()) == 0
	})
}

// requireBought requires that a purchase was charged once, and that its 200 names that.
func (s *shop) requireBought(t *testing.T, p *purchase) *payment {
	t.Helper()
	charged := s.charged(p)
	assert.Len(t, charged, 1, "a purchase is charged once")
	var named *payment
	for _, one := range charged {
		got := lab.Must(one.ask(s.client, s.url))(t)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.True(t, one.keep(t, got))
		if p.path != paths[0] {
			named = one // the gate is open
			continue
		}
		transaction := lab.Must(got.transaction())(t)
		if transaction == p.named {
			named = one
		} else {
			assert.Fail(t, "a charge that no 200 of its purchase names", "%v", transaction)
		}
	}
	require.NotNil(t, named, "the 200 of a purchase names a charge of another one")
	return named
}
