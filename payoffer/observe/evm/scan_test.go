package evm

import (
	"fmt"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// What was paid while the observer was down is found, however small the ranges are that an endpoint answers for, and
// however few logs.
func TestTransfersDuringOutageAreFound(t *testing.T) {
	t.Parallel()
	// ranges refuses larger ranges by a fault.
	ranges := func(blocks hexutil.Uint64, f fault) rule {
		return func(c call, pass func() any) any {
			if q := c.query(); q.ToBlock-q.FromBlock >= blocks {
				return f
			}
			return pass()
		}
	}
	for name, cap := range map[string]rule{
		"a cap on ranges":             ranges(40, fault{code: -32602}),
		"a cap by status":             ranges(100, fault{status: 413}),
		"a page instead of many logs": ranges(300, fault{text: "<html>too much</html>"}),
		"a cap on results": func(_ call, pass func() any) any {
			if shown := pass().([]object); len(shown) <= 20 {
				return shown
			}
			return fault{code: -32005}
		},
		"logs cut off without a word": func(_ call, pass func() any) any {
			shown := pass().([]object)
			return shown[:min(len(shown), suspicious)]
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openReadBeside(t, 1)
			for range 150 {
				s.chain.pay(price)
				s.chain.mine(13)
			}
			last := s.chain.pay(price)
			s.chain.final = s.chain.head() - 50
			s.nodes[0].on("eth_getLogs", cap)
			s.restart()
			s.requireRightAfterRound()
			s.requireObserved()
			require.Len(t, s.rows(), 151)
			require.False(t, s.row(last).Final)
			require.Equal(t, s.chain.final, s.cursor())

			// The cursor spares a second reading.
			s.restart()
			var low uint64
			s.nodes[0].on("eth_getLogs", func(c call, pass func() any) any {
				low = uint64(c.query().FromBlock)
				return pass()
			})
			s.round()
			require.Equal(t, s.chain.final+1, low)
			s.chain.finalize()
			s.round()
			require.True(t, s.row(last).Final)
		})
	}
}

// An endpoint shows logs that nobody asked for: none of them is money.
func TestUnrequestedLogsAreNotCounted(t *testing.T) {
	s := openReadBeside(t, 1)
	for _, foreign := range [][]event{
		sends(payer, stranger, price), sends(payer, payTo, 9_999), sends(payer, payTo, 0),
		{{stranger, sends(payer, payTo, price)[0].topics, sends(payer, payTo, price)[0].data}},
	} {
		s.chain.mine(1, s.chain.transaction(foreign))
	}
	s.nodes[0].on("eth_getLogs", func(c call, _ func() any) any {
		shown := []object{}
		for n := uint64(c.query().FromBlock); n <= s.chain.head(); n++ {
			for _, tx := range s.chain.blocks[n].transactions {
				shown = append(shown, s.chain.showLogs(n, 0, tx)...)
			}
		}
		return shown
	})
	s.round()
	require.Empty(t, s.rows())
	require.Zero(t, s.nodes[0].count("eth_getTransactionReceipt"))
}

// A failed transaction moved nothing.
func TestFailedTransactionIsNotCounted(t *testing.T) {
	s := openReadBeside(t, 1)
	payment := s.paid()
	s.requireRight()
	failed := *payment
	failed.failed = true
	s.chain.rewind(1)
	s.chain.mine(2, &failed)
	s.settle()
	s.requireStatus(ledger.StatusDropped, payment)

	// Not even where an endpoint shows logs of it.
	another := s.chain.pay(price)
	s.nodes[0].on("eth_getTransactionReceipt", func(_ call, pass func() any) any {
		shown := pass().(object)
		shown["status"] = "0x0"
		return shown
	})
	require.EqualError(t, s.look(), "sources_disagree (one.example)")
	require.Empty(t, s.confirmed())
	s.nodes[0].honest()
	s.restart()
	s.settle()
	s.requireStatus(ledger.StatusConfirmed, another)
}

func TestReceiptFields(t *testing.T) {
	s := openReadBeside(t, 2)
	payment := s.chain.transaction(sends(stranger, payTo, 12_345_678))
	s.chain.mine(1, s.chain.transaction(sends(payer, stranger, 1)), payment)
	s.round()
	row := s.row(payment)
	require.Equal(t, fmt.Sprintf("eip155:84532:%s:0", payment.hash.Hex()), row.ExternalID)
	require.Equal(t, s.config.USDC.Account(), row.Account)
	require.Equal(t, "usdc", row.Rail)
	require.Equal(t, ledger.LevelChain, row.EvidenceLevel)
	require.EqualValues(t, 12_345_678, row.Amount)
	require.EqualValues(t, 1234, *row.USDCents)
	require.Equal(t, "0x036cbd53842c5426634e7929541ec2318f3dcf7e", row.Asset)
	require.Equal(t, "0x27b1fdb04752bbc536007a920d24acb045561c26", row.Payer)
	require.Equal(t, s.chain.blocks[s.chain.head()].time, row.OccurredAt)
	require.Equal(t, ledger.BasisFace, row.ValueBasis)
	require.True(t, row.Testnet)
	require.False(t, row.Own)
	require.JSONEq(t, fmt.Sprintf(`{"block":%d,"blockHash":%q,"logIndex":1}`, s.chain.head(), s.chain.blocks[s.chain.head()].hash.Hex()), string(row.Evidence))
}

func TestOperatorPaymentIsMarkedOwn(t *testing.T) {
	s := openReadBeside(t, 1)
	before := s.paid()
	require.False(t, s.row(before).Own)
	s.config.Own = func(address string) bool { return address == "0xde709f2102306220921060314715629080e2fb77" }
	s.restart()
	own := s.chain.pay(price)
	other := s.chain.transaction(sends(stranger, payTo, price))
	s.chain.mine(1, other)
	s.round()
	require.True(t, s.row(own).Own)
	require.False(t, s.row(other).Own)
	require.True(t, s.row(before).Own, "it is not final: what the operator says of it now holds")
}

// What the account sends to itself was paid by nobody: it counts nowhere, whatever becomes of its block.
func TestSelfTransferHasMovedStatus(t *testing.T) {
	t.Parallel()
	for _, level := range []Level{Latest, Safe} {
		s := openRead(t, 2)
		s.config.Confirm = level
		s.restart()
		key := s.chain.authorize()
		key.From = payTo.Hex()
		self := s.chain.transaction(used(key), sends(payTo, payTo, price))
		s.chain.mine(1, self)
		requireMoved := func(final bool) {
			t.Helper()
			row := s.row(self)
			require.Equal(t, ledger.StatusMoved, row.Status)
			require.True(t, row.Own)
			require.Equal(t, final, row.Final)
			totals, err := s.db.Totals(t.Context(), offerID)
			require.NoError(t, err)
			for _, total := range totals {
				require.True(t, total.Count == 0 || total.Status == ledger.StatusMoved, "%+v", total)
			}
		}
		s.round()
		requireMoved(false)
		proof, found, err := s.Prove(t.Context(), key, self.hash.Hex())
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, ledger.StatusMoved, proof.State)
		require.True(t, proof.Own)

		// It is not announced as seen where one endpoint is behind, nor when it moves to another block.
		s.nodes[1].branch = s.chain.fork()
		s.nodes[1].rewind(1)
		s.round()
		requireMoved(false)
		s.nodes[1].branch = s.chain
		s.chain.rewind(1)
		s.chain.mine(2)
		s.chain.mine(1, self)
		s.round()
		requireMoved(false)
		s.chain.finalize()
		s.settle()
		requireMoved(true)
	}
}

// Many small payments must not delay a large one: all that is not final is looked at in every round.
func TestAllUnfinalReceiptsAreFollowed(t *testing.T) {
	s := openReadBeside(t, 2)
	for range 26 {
		var small []*transaction
		for range 10 {
			small = append(small, s.chain.transaction(sends(payer, payTo, 10_000)))
		}
		s.chain.mine(1, small...)
	}
	large := s.paid()
	s.requireRight()
	require.Len(t, s.rows(), 261)
	asked, written := s.nodes[0].count("eth_getTransactionReceipt"), s.db.recorded
	s.chain.rewind(1)
	s.chain.mine(1)
	s.requireRightAfterRound()
	s.requireStatus(ledger.StatusDropped, large)
	require.Equal(t, asked+1, s.nodes[0].count("eth_getTransactionReceipt"), "what stands in the same block is not read again")
	require.Equal(t, written+1, s.db.recorded, "what is no news is not written again")
}

// An account of the past is followed, and not scanned.
func TestFollowOnlyDoesNotScan(t *testing.T) {
	s := openReadBeside(t, 2)
	known, gone := s.chain.pay(price), s.chain.pay(2*price)
	s.round()
	s.config.FollowOnly = true
	s.restart()
	scans := s.nodes[0].count("eth_getLogs")
	s.chain.rewind(1)
	s.chain.pay(3 * price)
	s.chain.finalize()
	s.round()
	require.Len(t, s.rows(), 2)
	require.True(t, s.row(known).Final)
	s.requireStatus(ledger.StatusDropped, gone)
	require.Equal(t, scans, s.nodes[0].count("eth_getLogs"))
	require.Empty(t, s.Health().ObservedThrough)
}

// A ledger that cannot be read or written makes the rail blind, and loses nothing. Its own words stay out.
func TestLedgerFailureLosesNothing(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Unfinal", "AccountStates", "Record"} {
		s := openRead(t, 1)
		s.paid()
		cursor := s.cursor()
		s.chain.pay(price)
		s.chain.finalize()
		s.db.broken = method
		s.requireError("ledger_unavailable (ledger)", true)
		require.Equal(t, cursor, s.cursor())
		require.Len(t, s.rows(), 1)
		s.db.broken = ""
		s.settle()
	}
}

// What the ledger refuses for good keeps nothing else out, but is missing in the sums.
func TestRejectedObservationIsReported(t *testing.T) {
	s := openReadBeside(t, 1)
	refused := s.chain.pay(price)
	s.db.refused = map[string]bool{fmt.Sprintf("eip155:84532:%s:0", refused.hash.Hex()): true}
	other := s.chain.pay(price)
	s.requireError("bad_answer (one.example)", false)
	require.Len(t, s.rows(), 1)
	s.requireStatus(ledger.StatusConfirmed, other)
}

// The cursor stands at a block whose hash both show.
func TestCursorNeedsAgreement(t *testing.T) {
	s := openReadBeside(t, 2)
	s.chain.mineFinal(2)
	s.nodes[0].atBlock("finalized", func(block object) { block["hash"] = common.HexToHash("0xdead").Hex() })
	require.EqualError(t, s.look(), disagree)
	require.Zero(t, s.cursor())
	s.nodes[0].honest()
	s.settle()
	require.Equal(t, s.chain.head(), s.cursor())
}
