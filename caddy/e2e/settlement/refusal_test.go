package settlement

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// signedV2 is the version 2 payload of an authorization that was changed before it was signed.
func signedV2(t *testing.T, p payment, change func(*chain.Authorization)) payment {
	t.Helper()
	network := p.Network
	change(&p.Authorization)
	p.signature = p.Sign(t, p.buyer)
	p.Network = network // what was signed for another one is sent for this one
	p.encode(t)
	return p
}

// replaced is a payload with a text in place of another.
func replaced(t *testing.T, p payment, old, new string) []byte {
	t.Helper()
	require.Contains(t, string(p.payload), old)
	return []byte(strings.ReplaceAll(string(p.payload), old, new))
}

// payloadV1 is the same payment in version 1.
func payloadV1(t *testing.T, p payment, network string) []byte {
	t.Helper()
	payload, err := json.Marshal(map[string]any{
		"x402Version": 1, "scheme": "exact", "network": network,
		"payload": map[string]any{"signature": p.signature, "authorization": p.Authorization},
	})
	require.NoError(t, err)
	return payload
}

// twin returns the other signature that proves the same (EIP-2 allows only the one with the smaller s).
func twin(p payment) []byte {
	order := crypto.S256().Params().N
	signature := bytes.Clone(p.signature)
	s := new(big.Int).SetBytes(signature[32:64])
	copy(signature[32:64], common.LeftPadBytes(s.Sub(order, s).Bytes(), 32))
	signature[64] ^= 27 ^ 28
	return signature
}

// intents counts the rows of payments in a ledger's file.
func intents(t *testing.T, path string) (count int) {
	t.Helper()
	db := lab.Must(sql.Open("sqlite", "file:"+path+"?mode=ro"))(t)
	defer db.Close()
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM intents").Scan(&count))
	return count
}

// What can be told without anybody's help is told so: with the documented status and reason, without a call of the
// facilitator, and without a row.
func TestWhatCannotBeAPaymentCostsNothing(t *testing.T) {
	s := openSite(t)
	good := s.payment(s.chain.Buyers[0])
	now := time.Now()
	standard := base64.StdEncoding.EncodeToString
	v2 := func(payload []byte) (string, string) { return "PAYMENT-SIGNATURE", standard(payload) }
	v1 := func(payload []byte) (string, string) { return "X-PAYMENT", standard(payload) }
	changed := func(change func(*chain.Authorization)) (string, string) { return v2(signedV2(t, good, change).payload) }
	raw := func(value string) (string, string) { return "PAYMENT-SIGNATURE", value }
	both := func(name, value string) [2]string { return [2]string{name, value} }
	badTwin := good
	badTwin.signature = twin(good)
	badTwin.encode(t)

	for name, c := range map[string]struct {
		header [2]string
		status int
		reason string
	}{
		"too little":       {both(changed(func(a *chain.Authorization) { a.Value-- })), 402, "invalid_exact_evm_payload_authorization_value_mismatch"},
		"another chain id": {both(changed(func(a *chain.Authorization) { a.Network.ID = 8453 })), 402, "invalid_exact_evm_signature"},
		"expired":          {both(changed(func(a *chain.Authorization) { a.ValidBefore = now.Add(-time.Hour).Unix() })), 402, "invalid_exact_evm_payload_authorization_valid_before"},
		"not yet valid":    {both(changed(func(a *chain.Authorization) { a.ValidAfter = now.Add(time.Hour).Unix() })), 402, "invalid_exact_evm_payload_authorization_valid_after"},
		"a high s":         {both(v2(badTwin.payload)), 402, "invalid_exact_evm_signature"},

		"truncated base64":      {both(raw(standard(good.payload)[:801])), 400, ""},
		"deep JSON":             {both(v2([]byte(strings.Repeat("[", 5000)))), 400, "invalid_payload"},
		"a number as an amount": {both(v2(replaced(t, good, `"value":"42000000"`, `"value":42000000`))), 400, "invalid_payload"},
		"two nonces":            {both(v2(replaced(t, good, `"nonce":`, `"nonce":"0x00","nonce":`))), 400, "invalid_payload"},
		"a 1 MiB header":        {both(raw(strings.Repeat("A", 1<<20))), 431, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := s.post(t.Context(), c.header[0], c.header[1])
			require.NoError(t, a.err)
			require.Equal(t, c.status, a.status, a.body)
			require.Contains(t, a.body, c.reason)
			require.Empty(t, a.header.Get("PAYMENT-RESPONSE"))
			require.Equal(t, c.status == http.StatusPaymentRequired, a.header.Get("PAYMENT-REQUIRED") != "")
			if c.status != http.StatusRequestHeaderFieldsTooLarge {
				require.Contains(t, a.header.Get("Cache-Control"), "no-store")
			}
		})
	}
	require.Empty(t, s.facilitator.Calls(payoffertest.CallVerify))
	require.Empty(t, s.facilitator.Calls(payoffertest.CallSettle))

	// The very payment is still good: in base64url, in version 1, and again in version 2, and is made once.
	first := s.post(t.Context(), "PAYMENT-SIGNATURE", base64.RawURLEncoding.EncodeToString(good.payload))
	transaction := s.awaitTransfers(1)[0].Tx
	s.requirePaid(first, transaction)
	name, value := v1(payloadV1(t, good, "base-sepolia"))
	again := s.post(t.Context(), name, value)
	require.Equal(t, http.StatusOK, again.status, again.body)
	require.Empty(t, again.header.Get("PAYMENT-RESPONSE"))
	response := lab.Must(base64.StdEncoding.DecodeString(again.header.Get("X-PAYMENT-RESPONSE")))(t)
	require.Contains(t, string(response), `"base-sepolia"`)
	require.Contains(t, string(response), transaction.Hex())
	s.requirePaid(s.pay(t.Context(), good), transaction)

	// Its nonce with another content is another's.
	reused := signedV2(t, good, func(a *chain.Authorization) { a.ValidBefore++ })
	conflict := s.pay(t.Context(), reused)
	require.Equal(t, http.StatusConflict, conflict.status, conflict.body)
	require.Contains(t, conflict.body, "authorization_in_use")
	require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 1)

	s.process.Terminate()
	s.process.Await(t)
	s.audit(func(b *book) {
		b.requireReceipts(t, s.chain, s.chain.TransfersTo(t, s.payee))
		b.requireOpenIntents(t, 0)
		require.Equal(t, 1, intents(t, s.path), "nothing but the payment left a row")
	})
	require.Equal(t, strconv.Itoa(price), s.chain.BalanceOf(t, s.payee).String())
}

// openTwo starts one offer with a rail on each of two chains. The two shops share the service, its clock and its ledger,
// and are paid at the same address; each has a facilitator of its own, and a buyer has money on both.
func openTwo(t *testing.T) (sepolia, celo *shop, onSepolia, onCelo payment) {
	t.Helper()
	sepolia = openShop(t, longTimeout)
	celo = &shop{T: t, payee: sepolia.payee, clock: sepolia.clock, book: sepolia.book, timeout: longTimeout}
	celo.start(chain.Celo)
	first, evm := sepolia.rail("usdc", cents, sepolia.payee, sepolia.chain.URL)
	sepolia.evm = evm
	second, evm := celo.rail("usdc-42220", cents, celo.payee, celo.chain.URL)
	celo.evm = evm
	sepolia.service = newService(t, sepolia.clock, sepolia.book, &sepolia.log, cents, sepolia.former, first, second)
	celo.service = sepolia.service
	for _, s := range []*shop{sepolia, celo} {
		require.NoError(t, s.evm.Poll(t.Context()))
	}

	buyer := sepolia.chain.Buyers[0]
	celo.chain.Fund(t, chain.Address(buyer))
	return sepolia, celo, sepolia.payment(buyer), celo.payment(buyer)
}

func TestTwoChainsAreSettledAndReceiptedApart(t *testing.T) {
	t.Parallel()
	sepolia, celo, onSepolia, onCelo := openTwo(t)
	accepts := sepolia.service.Accepts()
	require.Len(t, accepts, 2)
	require.Equal(t, []string{"eip155:84532", "eip155:42220"}, []string{accepts[0].Network, accepts[1].Network})

	sepolia.paidFirst(onSepolia)
	celo.requireAgreement(0, 0)
	onCelo = celo.payment(onCelo.buyer) // signed after the first charge: a second purchase
	transaction := celo.paidFirst(onCelo)
	sepolia.requireAgreement(1, 0)
	celo.requireAgreement(1, 0)
	for _, s := range []*shop{sepolia, celo} {
		require.Len(t, s.facilitator.Calls(payoffertest.CallVerify), 1)
		require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 1)
	}
	for _, row := range celo.receipts() {
		require.Equal(t, row.Rail == "usdc", row.Testnet, "money of the test network is marked as such")
	}

	// A reorganization of one chain is none of the other's business.
	celo.reorganize(onCelo)
	for _, s := range []*shop{sepolia, celo} {
		require.NoError(t, s.evm.Poll(t.Context()))
	}
	celo.requireOpen(onCelo)
	sepolia.requirePaid(onSepolia, sepolia.awaitTransfers(1)[0].Tx)
	celo.resolve(soon)
	again := celo.awaitTransfers(1)[0].Tx
	require.NotEqual(t, transaction, again)
	celo.requirePaid(onCelo, again)
	sepolia.requireAgreement(1, 0)
	celo.requireAgreement(1, 0)
}

// A buyer whose payment is open on one chain must not be charged on the other one.
func TestAnOpenPaymentOnOneChainHoldsThePayersOtherChain(t *testing.T) {
	t.Parallel()
	sepolia, celo, onSepolia, onCelo := openTwo(t)
	sepolia.facilitator.Script(payoffertest.CallSettle, reply{Fault: payoffertest.FaultCloseActed})
	sepolia.requireOpen(onSepolia)

	outcome := celo.pay(onCelo)
	require.Equal(t, x402.Conflict, outcome.Status, "%+v", outcome)
	require.Equal(t, onSepolia.Nonce.Hex(), outcome.Intent)
	require.Empty(t, celo.facilitator.Calls(payoffertest.CallSettle))

	sepolia.resolve(soon)
	transaction := sepolia.awaitTransfers(1)[0].Tx
	sepolia.requirePaid(onSepolia, transaction)
	outcome = celo.pay(onCelo)
	require.Equal(t, x402.Settled, outcome.Status, "%+v", outcome)
	require.Equal(t, transaction.Hex(), outcome.Response.Transaction, "one purchase, one charge")
	require.Empty(t, celo.chain.TransfersTo(t, celo.payee))
	celo.book.requireUnknown(t, onCelo)
}

func TestTheSameNonceOnAnotherChainIsAnotherPayment(t *testing.T) {
	t.Parallel()
	sepolia, celo, onSepolia, onCelo := openTwo(t)
	sepolia.paidFirst(onSepolia)
	celo.paidFirst(celo.sign(onSepolia.Nonce, onCelo.buyer))
	sepolia.requireAgreement(1, 0)
	celo.requireAgreement(1, 0)
}

func TestAnAuthorizationForOneChainPaysNothingOnAnother(t *testing.T) {
	t.Parallel()
	sepolia, celo, onSepolia, _ := openTwo(t)
	moved := onSepolia
	moved.Network = chain.Celo // but signed for the other
	moved.encode(t)
	outcome := celo.pay(moved)
	require.Equal(t, x402.Refused, outcome.Status, "%+v", outcome)
	require.Equal(t, "invalid_exact_evm_signature", outcome.Reason)
	celo.book.requireUnknown(t, moved)
	for _, s := range []*shop{sepolia, celo} {
		require.Empty(t, s.facilitator.Calls(payoffertest.CallVerify))
		s.requireAgreement(0, 0)
	}
}
