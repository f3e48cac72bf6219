package accounting_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/observations"
)

var (
	allStatuses = []accounting.Status{
		accounting.StatusSeen, accounting.StatusConfirmed, accounting.StatusDropped, accounting.StatusRefunded, accounting.StatusReversed,
		accounting.StatusMoved, accounting.StatusSettling, accounting.StatusClaimed,
	}
	allLevels = []accounting.EvidenceLevel{
		accounting.LevelSigned, accounting.LevelProvider, accounting.LevelChain, accounting.LevelManual,
	}
)

// TestClassificationCounts goes through every standing that there
// is.
func TestClassificationCounts(t *testing.T) {
	var real, test, testCounts []accounting.Classification
	for _, status := range allStatuses {
		for _, level := range allLevels {
			for _, testnet := range []bool{false, true} {
				s := accounting.Classification{Status: status, EvidenceLevel: level, Testnet: testnet}
				own := s
				own.Own = true
				require.Equal(t, s.Counts(false), own.Counts(false), "own money is received too")
				require.Equal(t, s.Counts(true), own.Counts(true))
				switch {
				case s.Counts(false):
					real = append(real, s)
				case s.Counts(true):
					testCounts = append(testCounts, s)
				case s.Held():
					test = append(test, s)
				}
			}
		}
	}
	confirmed := func(testnet bool, levels ...accounting.EvidenceLevel) (all []accounting.Classification) {
		for _, level := range levels {
			all = append(all, accounting.Classification{Status: accounting.StatusConfirmed, EvidenceLevel: level, Testnet: testnet})
		}
		return all
	}
	require.Equal(t, confirmed(false, accounting.LevelSigned, accounting.LevelProvider, accounting.LevelChain, accounting.LevelManual), real)
	require.Equal(t, confirmed(true, accounting.LevelChain), testCounts)
	require.Equal(t, confirmed(true, accounting.LevelSigned, accounting.LevelProvider, accounting.LevelManual), test, "a checkout in test mode never counts")
}

func total(level accounting.EvidenceLevel, cents int64, change ...func(*accounting.Total)) accounting.Total {
	t := accounting.Total{
		BalanceKey: accounting.BalanceKey{Classification: accounting.Classification{Status: accounting.StatusConfirmed, EvidenceLevel: level}},
		Sum:        accounting.Sum{Count: 1, Amount: cents * 10_000, USDCents: cents},
	}
	for _, c := range change {
		c(&t)
	}
	return t
}

func own(t *accounting.Total)       { t.Own = true }
func onTestnet(t *accounting.Total) { t.Testnet = true }
func valueless(t *accounting.Total) { t.USDCents, t.UnknownUSD = 0, 1 }
func refundedWhole(t *accounting.Total) {
	t.Status, t.Refunded, t.RefundedCents = accounting.StatusRefunded, t.Amount, t.USDCents
}
func refundedTen(t *accounting.Total) { t.Refunded, t.RefundedCents = 10_00*10_000, 10_00 }

func TestCountOfCustomersAndOperator(t *testing.T) {
	seen := total(accounting.LevelChain, 1_00, func(t *accounting.Total) { t.Status = accounting.StatusSeen })
	for name, c := range map[string]struct {
		totals     []accounting.Total
		testCounts bool
		want       accounting.Counted
	}{
		"nothing":                    {},
		"others' and the operator's": {[]accounting.Total{total(accounting.LevelSigned, 40_00), total(accounting.LevelChain, 2_00, own)}, false, accounting.Counted{Received: 42_00, External: 40_00, Payments: 2, ExternalPayments: 1}},
		"what is not sure":           {[]accounting.Total{seen}, true, accounting.Counted{}},
		"less refunds":               {[]accounting.Total{total(accounting.LevelSigned, 42_00, refundedTen)}, false, accounting.Counted{Received: 32_00, External: 32_00, Payments: 1, ExternalPayments: 1}},
		"test money apart":           {[]accounting.Total{total(accounting.LevelChain, 42_00, onTestnet), total(accounting.LevelManual, 1_00)}, false, accounting.Counted{Received: 1_00, External: 1_00, Test: 42_00, Payments: 1, ExternalPayments: 1}},
		"test money that counts":     {[]accounting.Total{total(accounting.LevelChain, 42_00, onTestnet), total(accounting.LevelSigned, 1_00, onTestnet)}, true, accounting.Counted{Received: 42_00, External: 42_00, Test: 1_00, Payments: 1, ExternalPayments: 1}},
		"a value nobody knows":       {[]accounting.Total{total(accounting.LevelChain, 0, valueless), total(accounting.LevelChain, 42_00)}, false, accounting.Counted{Received: 42_00, External: 42_00, Payments: 2, ExternalPayments: 2, Partial: true}},
		"a refund of unknown worth":  {[]accounting.Total{total(accounting.LevelChain, 0, valueless, func(t *accounting.Total) { t.Refunded = 5 })}, false, accounting.Counted{Payments: 1, ExternalPayments: 1, Partial: true}},
		"gone back as a whole":       {[]accounting.Total{total(accounting.LevelChain, 0, valueless, refundedWhole)}, false, accounting.Counted{}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, accounting.Count(c.totals, c.testCounts)) })
	}
}

func TestNetPlusReturnedIsPaid(t *testing.T) {
	part, whole, unknown := total(accounting.LevelSigned, 42_00, refundedTen), total(accounting.LevelSigned, 10_00, refundedWhole), total(accounting.LevelChain, 0, valueless)
	require.Equal(t, accounting.Money{Count: 1, Amount: 32_00 * 10_000, USDCents: 32_00}, part.Net())
	require.Equal(t, accounting.Money{Amount: 10_00 * 10_000, USDCents: 10_00}, part.Returned(), "a refund in part is not counted")
	require.Zero(t, whole.Net())
	require.Equal(t, accounting.Money{Count: 1, Amount: 10_00 * 10_000, USDCents: 10_00}, whole.Returned())
	require.Equal(t, accounting.Money{Count: 1, UnknownUSD: 1}, unknown.Net())
	require.Zero(t, unknown.Returned())
	require.Equal(t, accounting.Money{Count: 2, Amount: 52_00 * 10_000, USDCents: 52_00, UnknownUSD: 1},
		part.Net().Plus(part.Returned()).Plus(whole.Net()).Plus(whole.Returned()).Plus(accounting.Money{UnknownUSD: 1}))
	unknown.Refunded = 5
	require.EqualValues(t, 1, unknown.Net().UnknownUSD)
	require.EqualValues(t, 1, unknown.Returned().UnknownUSD, "what went back of it is of unknown value too")
}

// Test money of chains counts until there is any real money, by whatever rail,
// also by one that nobody observes any more.
func TestTestMoneyAndRealMoneyAreSeparate(t *testing.T) {
	test, real := total(accounting.LevelChain, 42_00, onTestnet), total(accounting.LevelManual, 1_00)
	mode := total(accounting.LevelSigned, 5_00, onTestnet)
	for name, c := range map[string]struct {
		totals     []accounting.Total
		testOffer  bool
		testCounts bool
	}{
		"nothing":                    {nil, true, true},
		"test money alone":           {[]accounting.Total{test, mode}, true, true},
		"an offer for real money":    {[]accounting.Total{test}, false, false},
		"real money beside it":       {[]accounting.Total{test, real}, true, false},
		"the operator's own beside":  {[]accounting.Total{test, total(accounting.LevelChain, 1_00, own)}, true, false},
		"of unknown value":           {[]accounting.Total{test, total(accounting.LevelChain, 0, valueless)}, true, false},
		"in another currency":        {[]accounting.Total{test, total(accounting.LevelSigned, 0, valueless, func(t *accounting.Total) { t.Currency = "EUR" })}, true, false},
		"real money that went back":  {[]accounting.Total{test, total(accounting.LevelSigned, 1_00, refundedWhole)}, true, false},
		"what is not sure beside it": {[]accounting.Total{test, total(accounting.LevelManual, 1_00, func(t *accounting.Total) { t.Status = accounting.StatusSeen })}, true, true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.testCounts, accounting.TestCounts(c.totals, c.testOffer)) })
	}
}

// TestSumsFollowReceipts changes a receipt step by step: each change takes
// out what stood there.
func TestSumsFollowReceipts(t *testing.T) {
	sums := accounting.Sums{}
	var old accounting.Receipt
	life := observations.CardLife()
	for n := range life {
		next := observations.Fold(life[:n+1])
		sums.Change(old.Total(), next.Total())
		old = next
	}
	end := old.Total()
	require.Equal(t, accounting.Sum{Count: 1, Amount: 42_00, Refunded: 42_00, USDCents: 42_00, RefundedCents: 42_00}, end.Sum)
	for place, sum := range sums {
		if place == end.BalanceKey {
			require.Equal(t, end.Sum, sum)
		} else {
			require.Zero(t, sum, place)
		}
	}
	require.Zero(t, accounting.Receipt{}.Total())
}

func TestReceiptChangesThatAreTransitions(t *testing.T) {
	old := observations.Fold([]accounting.Observation{observations.Card("pi_1", accounting.StatusSeen)})
	for want, change := range map[bool][]func(*accounting.Receipt){
		true: {
			func(r *accounting.Receipt) { r.Status = accounting.StatusConfirmed }, func(r *accounting.Receipt) { r.Amount++ },
			func(r *accounting.Receipt) { r.Refunded++ }, func(r *accounting.Receipt) { r.Revision++ },
			func(r *accounting.Receipt) { r.USDCents = nil }, func(r *accounting.Receipt) { r.USDCents = ptr(int64(1)) },
			func(r *accounting.Receipt) { r.EvidenceLevel = accounting.LevelProvider }, func(r *accounting.Receipt) { r.Own = true },
			func(r *accounting.Receipt) { r.Testnet = true }, func(r *accounting.Receipt) { r.Asset = "EUR" },
		},
		false: {
			func(r *accounting.Receipt) { r.Final = true }, func(r *accounting.Receipt) { r.ValueBasis = accounting.BasisRate },
			func(r *accounting.Receipt) { r.USDCents = ptr(*r.USDCents) }, func(r *accounting.Receipt) { r.Via = "link" },
		},
	} {
		for n, c := range change {
			next := old
			c(&next)
			require.Equal(t, want, next.Moved(old), n)
		}
	}
}

func TestSumOverflows(t *testing.T) {
	one := accounting.Sum{Amount: 1, Refunded: 1, USDCents: 1, RefundedCents: 1}
	require.False(t, one.Overflows())
	for _, full := range []accounting.Sum{{Amount: math.MaxInt64}, {Refunded: math.MaxInt64}, {USDCents: math.MaxInt64}, {RefundedCents: math.MaxInt64}} {
		require.False(t, full.Overflows())
		require.True(t, full.Plus(one, 1).Overflows())
	}
}

func TestMergeMatchesReferenceModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(42, 1))
	for range cases.Count(t) {
		history := observations.RandomHistory(rng, "0xa")
		for n := range history {
			require.Equal(t, observations.Reference(history[:n+1]), observations.FactsOf(observations.Fold(history[:n+1])), "history %+v", history[:n+1])
		}
	}
}

func TestMergeWithoutChainIgnoresOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(42, 2))
	for range cases.Count(t) {
		var history []accounting.Observation
		for len(history) < 5 {
			if s := observations.RandomObservation(rng, "0xa"); s.EvidenceLevel != accounting.LevelChain {
				if s.Stated != nil {
					s.Stated, s.Addendum = nil, false // nobody states the value of what is not known
				}
				s.Evidence = json.RawMessage([]string{`{}`, `{"a":1}`, ``}[rng.IntN(3)])
				history = append(history, s)
			}
		}
		want := observations.Fold(history)
		rng.Shuffle(len(history), func(i, j int) { history[i], history[j] = history[j], history[i] })
		require.Equal(t, want, observations.Fold(append(history, history[rng.IntN(5)])))
	}
}

func TestObservationValidateRefuses(t *testing.T) {
	for name, spoil := range map[string]func(*accounting.Observation){
		"no offer":        func(s *accounting.Observation) { s.Offer = "" },
		"no external id":  func(s *accounting.Observation) { s.ExternalID = "" },
		"no asset":        func(s *accounting.Observation) { s.Asset = "" },
		"derived state":   func(s *accounting.Observation) { s.State = accounting.StatusRefunded },
		"no state":        func(s *accounting.Observation) { s.State = "" },
		"unknown level":   func(s *accounting.Observation) { s.EvidenceLevel = "heard" },
		"negative amount": func(s *accounting.Observation) { s.Amount = -1 },
		"negative refund": func(s *accounting.Observation) {
			s.Returns = []accounting.Return{{ID: "re_1", Kind: accounting.ReturnRefund, Amount: -1}}
		},
		"return without an id": func(s *accounting.Observation) { s.Returns = []accounting.Return{{Kind: accounting.ReturnRefund}} },
		"return of no kind":    func(s *accounting.Observation) { s.Returns = []accounting.Return{{ID: "re_1"}} },
		"return's id not UTF-8": func(s *accounting.Observation) {
			s.Returns = []accounting.Return{{ID: "re_\xff", Kind: accounting.ReturnRefund}}
		},
		"addendum of nothing":  func(s *accounting.Observation) { s.Addendum = true },
		"revision of a chain":  func(s *accounting.Observation) { s.Revision = 1 },
		"negative revision":    func(s *accounting.Observation) { s.EvidenceLevel, s.Revision = accounting.LevelManual, -1 },
		"note too big":         func(s *accounting.Observation) { s.Note = strings.Repeat("x", 4097) },
		"negative value":       func(s *accounting.Observation) { s.USDCents = ptr(int64(-1)) },
		"evidence not JSON":    func(s *accounting.Observation) { s.Evidence = json.RawMessage(`{`) },
		"external id too long": func(s *accounting.Observation) { s.ExternalID = strings.Repeat("x", 257) },
		"evidence too big":     func(s *accounting.Observation) { s.Evidence = json.RawMessage(`"` + strings.Repeat("x", 4096) + `"`) },
		"not UTF-8":            func(s *accounting.Observation) { s.ExternalID = "pi_\xff" },
		"zero character":       func(s *accounting.Observation) { s.Payer = "0x\x00" },
		"half a nonce":         func(s *accounting.Observation) { s.Nonce = observations.Nonce(1)[:64] },
		"nonce without 0x":     func(s *accounting.Observation) { s.Nonce = observations.Nonce(1)[2:] },
		"nonce in capitals":    func(s *accounting.Observation) { s.Nonce = strings.Replace(observations.Nonce(1), "1", "A", 1) },
		"nonce with a newline": func(s *accounting.Observation) { s.Nonce = observations.Nonce(1) + "\n" },
		"nonce of no chain": func(s *accounting.Observation) {
			s.Nonce, s.EvidenceLevel = observations.Nonce(1), accounting.LevelSigned
		},
		"intent without chain": func(s *accounting.Observation) { s.Intent, s.Transaction = &accounting.IntentKey{}, "" },
	} {
		t.Run(name, func(t *testing.T) {
			s := observations.Chain("0xa", accounting.StatusSeen)
			require.NoError(t, s.Validate())
			spoil(&s)
			require.ErrorIs(t, s.Validate(), accounting.ErrObservation)
		})
	}
}

func TestIntentKeyIgnoresCase(t *testing.T) {
	require.Equal(t, accounting.IntentKey{Network: "eip155:8453", Asset: "0xab", From: "0xcd", Nonce: "0xef"},
		accounting.IntentKey{Network: "eip155:8453", Asset: "0xAB", From: "0xCd", Nonce: "0xEF"}.Canonical())
}
