package crash

import (
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// purchase is what a buyer wants once whose client signs anew at every try, as the official ones do.
type purchase struct {
	buyer *ecdsa.PrivateKey
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
	p := &purchase{buyer: buyer}
	if len(s.purchases)%2 == 0 {
		p.id = rand.Text()
	}
	s.purchases = append(s.purchases, p)
	return p
}

// sign signs one more payment for a purchase.
func (s *shop) sign(t *testing.T, p *purchase) *payment {
	signed := newPayment(t, p.buyer, s.payee, p.id)
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
		got, err := one.ask(s.client, s.url)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.True(t, one.keep(t, got))
		transaction, err := got.transaction()
		require.NoError(t, err)
		if transaction == p.named {
			named = one
		} else {
			assert.Fail(t, "a charge that no 200 of its purchase names", "%v", transaction)
		}
	}
	require.NotNil(t, named, "the 200 of a purchase names a charge of another one")
	return named
}
