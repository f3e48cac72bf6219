package buyer

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const (
	payee       = "0x52908400098527886E0F7030069857D2E4169EE7"
	baseSepolia = "eip155:84532"
	usdc        = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"
	transaction = "0x1111111111111111111111111111111111111111111111111111111111111111"
)

type object = map[string]any

// seller is a fake with scripted answers.
type seller struct {
	t    *testing.T
	base string
	// quote is the version 2 quote, and paid the answers to payments, one after the
	// other; the last one stays.
	quote object
	paid  []http.HandlerFunc

	mu sync.Mutex
	// quotes counts requests without payment, payments are the values of
	// PAYMENT-SIGNATURE in the order in which they came.
	quotes   int
	payments []string
}

func openSeller(t *testing.T) *seller {
	t.Helper()
	s := &seller{t: t}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.base = server.URL
	s.quote = object{
		"x402Version": 2, "error": "payment required",
		"resource":   object{"url": s.base + "/buy", "description": "A thing", "mimeType": "text/plain"},
		"accepts":    []any{s.accept(nil)},
		"extensions": object{"payment-identifier": object{"info": object{"required": false}}},
	}
	s.paid = []http.HandlerFunc{s.settles()}
	return s
}

// accept is the way to pay 42 USDC on Base Sepolia, with changes.
func (s *seller) accept(changes object) object {
	accept := object{
		"scheme": "exact", "network": baseSepolia, "asset": usdc, "payTo": payee, "amount": "42000000", "maxTimeoutSeconds": 300,
		"extra": object{"name": "USDC", "version": "2"},
	}
	maps.Copy(accept, changes)
	return accept
}

// settles answers 200 to a payment.
func (s *seller) settles() http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		payer := s.payer(r.Header.Get(x402.HeaderSignature))
		settled := x402.SettleResponse{Success: true, Transaction: transaction, Network: baseSepolia, Payer: payer, Amount: "42000000"}
		w.Header().Set(x402.HeaderResponse, x402.EncodeHeader(settled))
		_, _ = w.Write([]byte(`{"receiptUrl":"` + s.base + `/receipt"}`))
	}
}

// says answers with a status and a Retry-After of a second.
func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// breaks closes the connection without an answer.
func breaks(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func encoded(t *testing.T, value any) json.RawMessage {
	t.Helper()
	text := must(json.Marshal(value))(t)
	return text
}

// payer is who signed a payment.
func (s *seller) payer(header string) string {
	var payload struct {
		Payload struct{ Authorization struct{ From string } }
	}
	text, err := base64.StdEncoding.DecodeString(header)
	require.NoError(s.t, err)
	require.NoError(s.t, json.Unmarshal(text, &payload))
	return payload.Payload.Authorization.From
}

func (s *seller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	payment := r.Header.Get(x402.HeaderSignature)
	if payment == "" {
		s.mu.Lock()
		s.quotes++
		s.mu.Unlock()
		w.Header().Set(x402.HeaderRequired, x402.EncodeHeader(s.quote))
		w.WriteHeader(http.StatusPaymentRequired)
		return
	}
	s.mu.Lock()
	s.payments = append(s.payments, payment)
	answer := s.paid[0]
	if len(s.paid) > 1 {
		s.paid = s.paid[1:]
	}
	s.mu.Unlock()
	answer(w, r)
}

// RoundTrip asks the seller without a network, for time that is not the clock's.
func (s *seller) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("the connection broke")
		}
	}()
	recorder := httptest.NewRecorder()
	s.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

// sent are the payments that came, and how many of them differ.
func (s *seller) sent() (all, different int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := make(map[string]bool)
	for _, payment := range s.payments {
		seen[payment] = true
	}
	return len(s.payments), len(seen)
}

// customer is a buyer with a key and a folder.
type customer struct {
	*Buyer
	t      *testing.T
	target Target
	key    Key
	state  string
}

func newCustomer(t *testing.T, s *seller) *customer {
	t.Helper()
	private := must(crypto.GenerateKey())(t)
	target := must(NewTarget(http.MethodPost, s.base+"/buy"))(t)
	return &customer{
		Buyer: &Buyer{Max: 50_000_000}, t: t, target: target, key: Key{private}, state: filepath.Join(t.TempDir(), "a", "payments"),
	}
}

// open opens the purchase until the test ends or it is closed.
func (c *customer) open() *Purchase {
	c.t.Helper()
	p, err := OpenPurchase(c.state, c.target, c.key.Address())
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = p.Close() })
	return p
}

// opened is a customer of a seller, with an open purchase.
func opened(t *testing.T) (*seller, *customer, *Purchase) {
	t.Helper()
	s := openSeller(t)
	c := newCustomer(t, s)
	return s, c, c.open()
}

// reopen is the purchase as another process finds it.
func (c *customer) reopen(p *Purchase) *Purchase {
	c.t.Helper()
	require.NoError(c.t, p.Close())
	return c.open()
}

// sign quotes and signs.
func (c *customer) sign(p *Purchase) {
	c.t.Helper()
	q, err := c.Quote(c.t.Context(), c.target)
	require.NoError(c.t, err)
	require.NoError(c.t, p.Sign(c.target, q, c.key))
}

// kept are the payments on disk.
func (c *customer) kept() []string {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(c.state, "*", "*.json"))
	require.NoError(c.t, err)
	return files
}

// requireNoSecret requires that a text has nothing of the key.
func (c *customer) requireNoSecret(text string) {
	c.t.Helper()
	digits := hex.EncodeToString(crypto.FromECDSA(c.key.private))
	require.NotContains(c.t, strings.ToLower(text), digits)
	require.NotContains(c.t, strings.ToLower(text), digits[:16])
}

// must requires that a call succeeds.
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}
