package soak

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// everything is more than there is of anything.
const everything = 1_000_000

// requireAccounted ends the server and compares its ledger, its announcements and the chain: every payment that was answered
// 200 is one transfer, one receipt and one settled intent, and every webhook that was taken is one receipt.
func (s *shop) requireAccounted() {
	s.Helper()
	server.Eventually(s, "every transfer is confirmed", func() bool { return server.Confirmed(s.url, "usdc") == len(s.paid) })
	server.Eventually(s, "every transfer is announced", func() bool { return s.announced("usdc") == len(s.paid) })
	s.process.Terminate()
	s.process.Await(s)
	book := ledger.NewSQLite(s.ledger, time.Now)
	if s.database != nil {
		var err error
		book, err = ledger.NewPostgres(s.ledger, time.Now)
		require.NoError(s, err)
	}
	require.NoError(s, book.Open(s.Context()))
	defer func() { require.NoError(s, book.Close()) }()
	require.NoError(s, book.Check(s.Context()))

	receipts, err := book.Receipts(s.Context(), "shop", 0, everything)
	require.NoError(s, err)
	rows := map[string]int{}
	for _, r := range receipts {
		rows[r.Rail]++
		rows[r.ExternalID]++
		if r.Rail == "usdc" {
			require.Equal(s, ledger.StatusConfirmed, r.Status, "%+v", r)
			require.EqualValues(s, price, r.Amount)
		}
	}
	transfers := s.chain.TransfersTo(s, s.payee)
	named, charged := []string{}, []string{}
	for _, p := range s.paid {
		named = append(named, p.transaction)
	}
	for _, transfer := range transfers {
		charged = append(charged, transfer.Tx.Hex())
	}
	require.ElementsMatch(s, named, charged, "each answer 200 names a transfer of its own, and there is no other")
	for _, transfer := range transfers {
		id := fmt.Sprintf("eip155:%d:%s:%d", s.chain.ID, transfer.Tx.Hex(), transfer.Ordinal)
		require.Equal(s, 1, rows[id], "the receipts of %s", id)
	}
	require.Equal(s, len(s.paid), rows["usdc"], "no receipt without a transfer")
	require.Equal(s, big.NewInt(int64(len(s.paid))*price), s.chain.BalanceOf(s, s.payee))
	require.EqualValues(s, s.deliveries.Load(), rows["card"], "one receipt for each webhook")
	for _, p := range s.paid {
		intent, known, err := book.Intent(s.Context(), ledger.IntentKey{
			Network: "eip155:" + strconv.FormatInt(s.chain.ID, 10), Asset: s.chain.USDC.Hex(), From: p.From.Hex(), Nonce: p.Nonce.Hex(),
		})
		require.NoError(s, err)
		require.True(s, known)
		require.Equal(s, ledger.IntentSettled, intent.State, "%+v", intent)
		require.Equal(s, ledger.EvidenceChain, intent.Evidence, "%+v", intent)
	}
}

// announced is how many receipts of a rail the receiver was told of.
func (s *shop) announced(rail string) int {
	told := map[string]bool{}
	for _, a := range s.receiver.Requests() {
		var event struct {
			Data struct{ Rail, ExternalID string }
		}
		if a.Taken && json.Unmarshal(a.Body, &event) == nil && event.Data.Rail == rail {
			told[event.Data.ExternalID] = true
		}
	}
	return len(told)
}
