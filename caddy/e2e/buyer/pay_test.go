// Package buyer lets the built binary pay: the built server, the reference seller, and sellers that lie.
package buyer

import (
	"encoding/json"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

func TestTheBinaryPaysTheBinary(t *testing.T) {
	m := openMarket(t)
	url, payee := m.sell()
	p := newPerson(t, m.Buyers[0])

	dry := p.pay(url, "--dry-run")
	require.Zero(t, dry.code, dry.err)
	require.Contains(t, dry.out, payee.Hex())
	require.NotContains(t, dry.out, chain.Address(p.key).Hex())
	require.Empty(t, p.kept())

	refused := p.pay(url)
	require.Equal(t, 1, refused.code)
	require.Contains(t, refused.err, "there is no terminal to ask on; add --yes to pay without asking")
	require.Empty(t, p.kept())

	got := p.pay(url, "--yes")
	require.Zero(t, got.code, got.err)
	t.Log("\n" + got.out)
	transfer := m.requireOneTransfer(p, payee)
	for _, want := range []string{
		"42 USDC (42 USD)", payee.Hex(), "base-sepolia (eip155:84532), a TEST network", chain.Address(p.key).Hex(),
		"Paid 42 USDC to " + payee.Hex(), transfer.Tx.Hex(), "/v1/receipt/",
	} {
		require.Contains(t, got.out, want)
	}

	again := p.pay(url, "--yes")
	require.Zero(t, again.code, again.err)
	require.Contains(t, again.out, "This was paid before. Nothing is sent now")
	require.Contains(t, again.out, transfer.Tx.Hex())
	m.requireOneTransfer(p, payee)

	anew := p.pay(url, "--yes", "--new", "--json")
	require.Zero(t, anew.code, anew.err)
	require.Len(t, m.TransfersTo(t, payee), 2)
	require.Len(t, p.kept(), 2)
	var printed struct{ Status, Transaction, AmountUSD, Payer, ReceiptURL string }
	require.NoError(t, json.Unmarshal([]byte(anew.out), &printed), anew.out)
	require.Equal(t, "paid", printed.Status)
	require.Equal(t, m.TransfersTo(t, payee)[1].Tx.Hex(), printed.Transaction)
	require.Contains(t, printed.ReceiptURL, "/v1/receipt/")
	require.Equal(t, []string{"42", chain.Address(p.key).Hex()}, []string{printed.AmountUSD, printed.Payer})
}

func TestTheBinaryPaysTheReferenceSeller(t *testing.T) {
	m := openMarket(t)
	for i, method := range []string{"GET", "POST"} {
		payee := chain.NewAddress(t)
		url := node.StartSeller(t, m.facilitator, payee).URL + "/report"
		p := newPerson(t, m.Buyers[i])
		got := p.pay(url, "--yes", "--method", method)
		require.Zero(t, got.code, got.err)
		t.Log("\n" + got.out)
		require.Contains(t, got.out, m.requireOneTransfer(p, payee).Tx.Hex())
		bought, err := os.ReadFile(p.kept()[0].Answer)
		require.NoError(t, err)
		require.Equal(t, "what was bought", string(bought))
	}
}

func TestTwoRunsAtOnceSignOnce(t *testing.T) {
	m := openMarket(t)
	url, payee := m.sell()
	p := newPerson(t, m.Buyers[0])
	results := make([]result, 6)
	server.Released(t) // built before
	var runs sync.WaitGroup
	for n := range results {
		runs.Go(func() { results[n] = p.pay(url, "--yes") })
	}
	runs.Wait()
	paid := 0
	for _, got := range results {
		switch got.code {
		case 0:
			paid++
		case 75:
			require.Contains(t, got.err, "another run of this command is paying for the same purchase")
		default:
			t.Errorf("%+v", got)
		}
	}
	require.Positive(t, paid)
	m.requireOneTransfer(p, payee)
}
