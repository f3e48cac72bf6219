package receipts

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/bitcoin"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/bitcoin/esplora"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// openChainShop starts the binary with an offer on test networks: rails are options of pay_offer.
func openChainShop(t *testing.T, rails string) *shop {
	t.Helper()
	s := &shop{t: t, url: "http://localhost:" + payoffertest.FreePort(t)}
	s.Process = server.Start(t, s.url, fmt.Sprintf(`{
	admin off
	persist_config off
	default_bind 127.0.0.1
}
%s {
	pay_offer {
		base_url %[1]s
		card https://checkout.example/pay
		%s
	}
}
`, s.url, rails))
	require.Eventually(t, func() bool { return s.status("/v1/received") == http.StatusOK }, patience, again)
	return s
}

// confirmed is how many receipts of a rail are confirmed; -1 while that is unknown.
func (s *shop) confirmed(rail string) int64 {
	if r := s.rail(rail); r.Confirmed != nil {
		return r.Confirmed.Count
	}
	return -1
}

func TestAWalletsTransferIsReceived(t *testing.T) {
	node := chain.Start(t)
	var payee common.Address
	_, err := rand.Read(payee[:])
	require.NoError(t, err)
	node.Pay(t, payee, 42_000_000) // before the first start: not this offer's
	node.Mine(t, 1)
	// Blocks are a second apart by their own clock, which may be ahead of this machine's.
	require.Eventually(t, func() bool { return time.Now().Unix() >= node.Time() }, patience, again)
	s := openChainShop(t, fmt.Sprintf("usdc base-sepolia %s {\n facilitator http://127.0.0.1:9\n rpc %s\n confirm latest\n }", payee.Hex(), node.URL))
	require.Eventually(t, func() bool { return s.confirmed("usdc") == 0 }, patience, again)

	node.Pay(t, payee, 42_000_000)
	require.Eventually(t, func() bool { return s.confirmed("usdc") == 1 }, patience, again)
	require.Equal(t, "42", s.received().ReceivedUSD.String())
	require.Equal(t, "observed", s.rail("usdc").State)
}

func TestABitcoinPaymentIsReceived(t *testing.T) {
	const payee = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080" // BIP-173's example
	node := bitcoin.Start(t)
	endpoints := strings.Join(esplora.StartTwo(t, node, bitcoin.Params, bitcoin.Params), " ")
	s := openChainShop(t, fmt.Sprintf("bitcoin %s {\n esplora %s\n confirmations 1\n }", payee, endpoints))
	require.Eventually(t, func() bool { return s.confirmed("btc") == 0 }, patience, again)

	node.Mine(t, node.Payment(t, payee, 46_667))
	require.Eventually(t, func() bool { return s.confirmed("btc") == 1 }, 3*patience, again, "the chain is read every half minute")
	require.Equal(t, "46667", s.received().Receipts[0].AmountAtomic)
	require.Equal(t, "observed", s.rail("btc").State)
}
