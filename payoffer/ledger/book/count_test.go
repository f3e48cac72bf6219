package book_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/book"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/sightings"
)

var (
	allStatuses = []book.Status{
		book.StatusSeen, book.StatusConfirmed, book.StatusDropped, book.StatusRefunded, book.StatusReversed,
		book.StatusMoved, book.StatusSettling, book.StatusClaimed,
	}
	allLevels = []book.EvidenceLevel{
		book.LevelSigned, book.LevelProvider, book.LevelChain, book.LevelManual,
	}
)

// TestOnlyConfirmedMoneyWithProofCounts goes through every standing that there
// is.
func TestOnlyConfirmedMoneyWithProofCounts(t *testing.T) {
	var real, test, testCounts []book.Standing
	for _, status := range allStatuses {
		for _, level := range allLevels {
			for _, testnet := range []bool{false, true} {
				s := book.Standing{Status: status, EvidenceLevel: level, Testnet: testnet}
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
	confirmed := func(testnet bool, levels ...book.EvidenceLevel) (all []book.Standing) {
		for _, level := range levels {
			all = append(all, book.Standing{Status: book.StatusConfirmed, EvidenceLevel: level, Testnet: testnet})
		}
		return all
	}
	require.Equal(t, confirmed(false, book.LevelSigned, book.LevelProvider, book.LevelChain, book.LevelManual), real)
	require.Equal(t, confirmed(true, book.LevelChain), testCounts)
	require.Equal(t, confirmed(true, book.LevelSigned, book.LevelProvider, book.LevelManual), test, "a checkout in test mode never counts")
}

// TestMoneyIsHeldOrSeenOrNeither: nothing stands in two columns of a rail.
func TestMoneyIsHeldOrSeenOrNeither(t *testing.T) {
	for _, status := range allStatuses {
		for _, level := range allLevels {
			s := book.Standing{Status: status, EvidenceLevel: level}
			require.False(t, s.Held() && s.Seen(), "%+v", s)
			require.Equal(t, status == book.StatusSeen || status == book.StatusConfirmed, s.Held() || s.Seen(), "%+v", s)
		}
	}
}

func total(level book.EvidenceLevel, cents int64, change ...func(*book.Total)) book.Total {
	t := book.Total{
		Place: book.Place{Standing: book.Standing{Status: book.StatusConfirmed, EvidenceLevel: level}},
		Sum:   book.Sum{Count: 1, Amount: cents * 10_000, USDCents: cents},
	}
	for _, c := range change {
		c(&t)
	}
	return t
}

func own(t *book.Total)       { t.Own = true }
func onTestnet(t *book.Total) { t.Testnet = true }
func valueless(t *book.Total) { t.USDCents, t.UnknownUSD = 0, 1 }
func refundedWhole(t *book.Total) {
	t.Status, t.Refunded, t.RefundedCents = book.StatusRefunded, t.Amount, t.USDCents
}
func refundedTen(t *book.Total) { t.Refunded, t.RefundedCents = 10_00*10_000, 10_00 }

func TestCountSaysHowMuchForWhom(t *testing.T) {
	seen := total(book.LevelChain, 1_00, func(t *book.Total) { t.Status = book.StatusSeen })
	for name, c := range map[string]struct {
		totals     []book.Total
		testCounts bool
		want       book.Counted
	}{
		"nothing":                    {},
		"others' and the operator's": {[]book.Total{total(book.LevelSigned, 40_00), total(book.LevelChain, 2_00, own)}, false, book.Counted{Received: 42_00, External: 40_00, Payments: 2, ExternalPayments: 1}},
		"what is not sure":           {[]book.Total{seen}, true, book.Counted{}},
		"less refunds":               {[]book.Total{total(book.LevelSigned, 42_00, refundedTen)}, false, book.Counted{Received: 32_00, External: 32_00, Payments: 1, ExternalPayments: 1}},
		"test money apart":           {[]book.Total{total(book.LevelChain, 42_00, onTestnet), total(book.LevelManual, 1_00)}, false, book.Counted{Received: 1_00, External: 1_00, Test: 42_00, Payments: 1, ExternalPayments: 1}},
		"test money that counts":     {[]book.Total{total(book.LevelChain, 42_00, onTestnet), total(book.LevelSigned, 1_00, onTestnet)}, true, book.Counted{Received: 42_00, External: 42_00, Test: 1_00, Payments: 1, ExternalPayments: 1}},
		"a value nobody knows":       {[]book.Total{total(book.LevelChain, 0, valueless), total(book.LevelChain, 42_00)}, false, book.Counted{Received: 42_00, External: 42_00, Payments: 2, ExternalPayments: 2, Partial: true}},
		"a refund of unknown worth":  {[]book.Total{total(book.LevelChain, 0, valueless, func(t *book.Total) { t.Refunded = 5 })}, false, book.Counted{Payments: 1, ExternalPayments: 1, Partial: true}},
		"gone back as a whole":       {[]book.Total{total(book.LevelChain, 0, valueless, refundedWhole)}, false, book.Counted{}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, book.Count(c.totals, c.testCounts)) })
	}
}

func TestWhatIsKeptAndWhatWentBackIsWhatWasPaid(t *testing.T) {
	part, whole, unknown := total(book.LevelSigned, 42_00, refundedTen), total(book.LevelSigned, 10_00, refundedWhole), total(book.LevelChain, 0, valueless)
	require.Equal(t, book.Money{Count: 1, Amount: 32_00 * 10_000, USDCents: 32_00}, part.Net())
	require.Equal(t, book.Money{Amount: 10_00 * 10_000, USDCents: 10_00}, part.Returned(), "a refund in part is not counted")
	require.Zero(t, whole.Net())
	require.Equal(t, book.Money{Count: 1, Amount: 10_00 * 10_000, USDCents: 10_00}, whole.Returned())
	require.Equal(t, book.Money{Count: 1, UnknownUSD: 1}, unknown.Net())
	require.Zero(t, unknown.Returned())
	require.Equal(t, book.Money{Count: 2, Amount: 52_00 * 10_000, USDCents: 52_00, UnknownUSD: 1},
		part.Net().Plus(part.Returned()).Plus(whole.Net()).Plus(whole.Returned()).Plus(book.Money{UnknownUSD: 1}))
	unknown.Refunded = 5
	require.EqualValues(t, 1, unknown.Net().UnknownUSD)
	require.EqualValues(t, 1, unknown.Returned().UnknownUSD, "what went back of it is of unknown value too")
}

// Test money of chains counts until there is any real money, by whatever rail,
// also by one that nobody observes any more.
func TestTestMoneyAndRealMoneyNeverShareASum(t *testing.T) {
	test, real := total(book.LevelChain, 42_00, onTestnet), total(book.LevelManual, 1_00)
	mode := total(book.LevelSigned, 5_00, onTestnet)
	for name, c := range map[string]struct {
		totals     []book.Total
		testOffer  bool
		testCounts bool
	}{
		"nothing":                    {nil, true, true},
		"test money alone":           {[]book.Total{test, mode}, true, true},
		"an offer for real money":    {[]book.Total{test}, false, false},
		"real money beside it":       {[]book.Total{test, real}, true, false},
		"the operator's own beside":  {[]book.Total{test, total(book.LevelChain, 1_00, own)}, true, false},
		"of unknown value":           {[]book.Total{test, total(book.LevelChain, 0, valueless)}, true, false},
		"in another currency":        {[]book.Total{test, total(book.LevelSigned, 0, valueless, func(t *book.Total) { t.Currency = "EUR" })}, true, false},
		"real money that went back":  {[]book.Total{test, total(book.LevelSigned, 1_00, refundedWhole)}, true, false},
		"what is not sure beside it": {[]book.Total{test, total(book.LevelManual, 1_00, func(t *book.Total) { t.Status = book.StatusSeen })}, true, true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.testCounts, book.TestCounts(c.totals, c.testOffer)) })
	}
}

// TestSumsFollowTheirReceipts changes a receipt step by step: each change takes
// out what stood there.
func TestSumsFollowTheirReceipts(t *testing.T) {
	sums := book.Sums{}
	var old book.Receipt
	life := sightings.CardLife()
	for n := range life {
		next := sightings.Fold(life[:n+1])
		sums.Change(old.Total(), next.Total())
		old = next
	}
	end := old.Total()
	require.Equal(t, book.Sum{Count: 1, Amount: 42_00, Refunded: 42_00, USDCents: 42_00, RefundedCents: 42_00}, end.Sum)
	for place, sum := range sums {
		if place == end.Place {
			require.Equal(t, end.Sum, sum)
		} else {
			require.Zero(t, sum, place)
		}
	}
	require.Zero(t, book.Receipt{}.Total())
}

func TestOnlyWhatChangesTheBooksIsATransition(t *testing.T) {
	old := sightings.Fold([]book.Sighting{sightings.Card("pi_1", book.StatusSeen)})
	for want, change := range map[bool][]func(*book.Receipt){
		true: {
			func(r *book.Receipt) { r.Status = book.StatusConfirmed }, func(r *book.Receipt) { r.Amount++ },
			func(r *book.Receipt) { r.Refunded++ }, func(r *book.Receipt) { r.Revision++ },
			func(r *book.Receipt) { r.USDCents = nil }, func(r *book.Receipt) { r.USDCents = ptr(int64(1)) },
			func(r *book.Receipt) { r.EvidenceLevel = book.LevelProvider }, func(r *book.Receipt) { r.Own = true },
			func(r *book.Receipt) { r.Testnet = true }, func(r *book.Receipt) { r.Asset = "EUR" },
		},
		false: {
			func(r *book.Receipt) { r.Final = true }, func(r *book.Receipt) { r.ValueBasis = book.BasisRate },
			func(r *book.Receipt) { r.USDCents = ptr(*r.USDCents) }, func(r *book.Receipt) { r.Via = "link" },
		},
	} {
		for n, c := range change {
			next := old
			c(&next)
			require.Equal(t, want, next.Moved(old), n)
		}
	}
}

func TestASumOfUnknownValueSaysSo(t *testing.T) {
	require.Equal(t, book.Sum{Count: 1, Amount: 7, UnknownUSD: 1}, book.NewSum(7, nil))
	require.Equal(t, book.Sum{Count: 1, Amount: 7, USDCents: 0}, book.NewSum(7, ptr(int64(0))))
}

func TestASumPastItsBoundIsFound(t *testing.T) {
	one := book.Sum{Amount: 1, Refunded: 1, USDCents: 1, RefundedCents: 1}
	require.False(t, one.Overflows())
	for _, full := range []book.Sum{{Amount: math.MaxInt64}, {Refunded: math.MaxInt64}, {USDCents: math.MaxInt64}, {RefundedCents: math.MaxInt64}} {
		require.False(t, full.Overflows())
		require.True(t, full.Plus(one, 1).Overflows())
	}
}

func TestPlacesHaveOneOrder(t *testing.T) {
	standing := func(s book.Status, l book.EvidenceLevel, own, testnet bool) book.Standing {
		return book.Standing{Status: s, EvidenceLevel: l, Own: own, Testnet: testnet}
	}
	sorted := []book.Place{
		{"a", "a", "a", "", standing("a", "a", false, false)}, {"a", "a", "a", "", standing("a", "a", false, true)},
		{"a", "a", "a", "", standing("a", "a", true, false)}, {"a", "a", "a", "", standing("a", "b", false, false)},
		{"a", "a", "a", "", standing("b", "a", false, false)}, {"a", "a", "b", "", standing("a", "a", false, false)},
		{"a", "b", "a", "", standing("a", "a", false, false)}, {"a", "b", "a", "EUR", standing("a", "a", false, false)}, {"b", "a", "a", "", standing("a", "a", false, false)},
	}
	sightings.Permute(slices.Clone(sorted[:6]), func(order []book.Place) {
		slices.SortFunc(order, book.Place.Compare)
		require.Equal(t, sorted[:6], order)
	})
	require.True(t, slices.IsSortedFunc(sorted, book.Place.Compare))
	require.Zero(t, sorted[0].Compare(sorted[0]))
}
