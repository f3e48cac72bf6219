package ledger

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// fold merges sightings in order, as Record does.
func fold(sightings []Sighting) (r Receipt) {
	var known words
	for _, s := range sightings {
		r, known = merge(r, known, s)
		if r.ExternalID != "" {
			r.Version = 1
		}
	}
	return r
}

// returned is an addendum to the payment id.
func returned(id string, r Return) Sighting {
	return Sighting{
		Offer: testOffer, Account: cardAccount, Rail: "card", ExternalID: id, EvidenceLevel: LevelSigned,
		Returns: []Return{r}, Addendum: true, Cause: "webhook",
	}
}

// cardLife is what a card payment may bring in any order: two webhooks, two
// partial refunds of which one failed in between, and their total meanwhile,
// a dispute that is won, and the provider's list with its total.
func cardLife() []Sighting {
	pending, paid := cardSighting("pi_1", StatusSeen), cardSighting("pi_1", StatusConfirmed)
	paid.Returns = []Return{{ID: "ch_1", Kind: ReturnTotal, Amount: 4_200, Gone: true, At: 9_000}}
	listed := cardSighting("pi_1", StatusConfirmed)
	listed.EvidenceLevel, listed.Evidence = LevelProvider, json.RawMessage(`{"list":1}`)
	listed.Returns = []Return{
		{ID: "re_2", Kind: ReturnRefund, Amount: 3_000, At: 1_500},
		{ID: "dp_1", Kind: ReturnReversal, At: 2_000, Rank: 1},
	}
	return []Sighting{
		pending, paid, listed,
		returned("pi_1", Return{ID: "re_1", Kind: ReturnRefund, Amount: 1_200, Gone: true, At: 1_000}),
		returned("pi_1", Return{ID: "re_2", Kind: ReturnRefund, Amount: 3_000, Gone: true, At: 1_400}),
		returned("pi_1", Return{ID: "re_2", Kind: ReturnRefund, Amount: 3_000, Gone: true, At: 1_500, Rank: 1}),
		returned("pi_1", Return{ID: "dp_1", Kind: ReturnReversal, Gone: true, At: 2_000}),
	}
}

func TestEveryOrderOfACardLifeEndsTheSame(t *testing.T) {
	life := cardLife()
	want := fold(life)
	require.Equal(t, StatusRefunded, want.Status)
	require.EqualValues(t, 4_200, want.RefundedCents)
	count := 0
	permute(life, func(order []Sighting) {
		count++
		require.Equal(t, want, fold(order))
		require.Equal(t, want, fold(append(order[:7:7], order[0], order[3])), "duplicates change nothing")
	})
	require.Equal(t, 5_040, count)
}

// permute calls f with every order of s (Heap's algorithm).
func permute(s []Sighting, f func([]Sighting)) {
	var heap func(int)
	heap = func(n int) {
		if n == 1 {
			f(slices.Clone(s))
			return
		}
		for i := range n {
			heap(n - 1)
			if n%2 == 0 {
				s[i], s[n-1] = s[n-1], s[i]
			} else {
				s[0], s[n-1] = s[n-1], s[0]
			}
		}
	}
	heap(len(s))
}

func TestStatusFollowsTheFacts(t *testing.T) {
	pending, paid := cardSighting("pi_1", StatusSeen), cardSighting("pi_1", StatusConfirmed)
	failed := cardSighting("pi_1", StatusDropped)
	refund := func(id string, amount int64, gone bool, at int64) Sighting {
		return returned("pi_1", Return{ID: id, Kind: ReturnRefund, Amount: amount, Gone: gone, At: at})
	}
	total := func(amount, at int64) Sighting {
		return returned("pi_1", Return{ID: "ch_1", Kind: ReturnTotal, Amount: amount, Gone: true, At: at})
	}
	dispute := func(id string, gone bool, at int64) Sighting {
		return returned("pi_1", Return{ID: id, Kind: ReturnReversal, Gone: gone, At: at})
	}
	for name, c := range map[string]struct {
		life     []Sighting
		want     Status
		refunded int64
	}{
		"pending":                      {[]Sighting{pending}, StatusSeen, 0},
		"failed":                       {[]Sighting{pending, failed}, StatusDropped, 0},
		"paid after a failure":         {[]Sighting{paid, failed}, StatusConfirmed, 0},
		"refunded in part":             {[]Sighting{paid, refund("re_1", 2_100, true, 1)}, StatusConfirmed, 2_100},
		"refunded in part, twice":      {[]Sighting{paid, refund("re_1", 2_100, true, 1), refund("re_2", 2_100, true, 1)}, StatusRefunded, 4_200},
		"refunded before it was paid":  {[]Sighting{refund("re_1", 4_200, true, 1), paid}, StatusRefunded, 4_200},
		"refunded while pending":       {[]Sighting{pending, refund("re_1", 4_200, true, 1)}, StatusRefunded, 4_200},
		"refund pending":               {[]Sighting{paid, refund("re_1", 4_200, false, 1)}, StatusConfirmed, 0},
		"refund failed":                {[]Sighting{paid, refund("re_1", 4_200, true, 1), refund("re_1", 4_200, false, 2)}, StatusConfirmed, 0},
		"refunded more than was paid":  {[]Sighting{paid, refund("re_1", 9_000, true, 1)}, StatusRefunded, 4_200},
		"total":                        {[]Sighting{paid, total(1_000, 1), total(4_200, 2)}, StatusRefunded, 4_200},
		"total of a known refund":      {[]Sighting{paid, total(4_200, 2), refund("re_1", 4_200, false, 3)}, StatusConfirmed, 0},
		"total with an untold refund":  {[]Sighting{paid, refund("re_1", 1_000, true, 1), total(4_200, 2)}, StatusRefunded, 4_200},
		"total with one that failed":   {[]Sighting{total(4_200, 2), refund("re_1", 1_000, false, 3), paid}, StatusConfirmed, 3_200},
		"total from before a refund":   {[]Sighting{paid, refund("re_1", 1_000, true, 1), refund("re_2", 500, true, 3), total(1_000, 2)}, StatusConfirmed, 1_500},
		"disputed":                     {[]Sighting{paid, dispute("dp_1", true, 1)}, StatusReversed, 0},
		"dispute won":                  {[]Sighting{dispute("dp_1", true, 1), dispute("dp_1", false, 2), paid}, StatusConfirmed, 0},
		"one dispute won, one lost":    {[]Sighting{paid, dispute("dp_1", false, 2), dispute("dp_2", true, 1)}, StatusReversed, 0},
		"dispute lost after a refund":  {[]Sighting{paid, refund("re_1", 4_200, true, 1), dispute("dp_1", true, 2)}, StatusReversed, 4_200},
		"refund of what never arrived": {[]Sighting{failed, refund("re_1", 4_200, true, 1)}, StatusDropped, 4_200},
	} {
		t.Run(name, func(t *testing.T) {
			r := fold(c.life)
			require.Equal(t, c.want, r.Status)
			require.Equal(t, c.refunded, r.Refunded)
		})
	}
}

func TestReturnsOfAnUnknownPaymentMakeNoRow(t *testing.T) {
	require.Zero(t, fold([]Sighting{returned("pi_1", Return{ID: "re_1", Kind: ReturnRefund, Amount: 1, Gone: true})}))
}

func TestLessTrustedWordsMoveNothing(t *testing.T) {
	ping := cardSighting("sale", StatusConfirmed)
	ping.EvidenceLevel, ping.Amount = LevelAsserted, 9_999
	ping.Returns = []Return{
		{ID: "refunded", Kind: ReturnTotal, Amount: 9_999, Gone: true, At: 5_000},
		{ID: "disputed", Kind: ReturnReversal, Gone: true, At: 5_000},
	}
	require.Equal(t, StatusReversed, fold([]Sighting{ping}).Status, "unsigned words move unsigned words")
	read := cardSighting("sale", StatusSeen)
	read.EvidenceLevel = LevelProvider
	back := returned("sale", Return{ID: "refunded", Kind: ReturnTotal, Amount: 100, Gone: true, At: 1})
	for _, order := range [][]Sighting{{ping, read, back}, {read, ping, back}, {back, ping, read}} {
		r := fold(order)
		require.Equal(t, StatusSeen, r.Status)
		require.EqualValues(t, 4_200, r.Amount)
		require.Equal(t, LevelProvider, r.EvidenceLevel)
		require.EqualValues(t, 100, r.Refunded)
	}
	manual := chainSighting("0xa", StatusConfirmed)
	manual.EvidenceLevel = LevelManual
	require.Equal(t, StatusSeen, fold([]Sighting{chainSighting("0xa", StatusSeen), manual}).Status)
}

func TestHighestRevisionHolds(t *testing.T) {
	entry := func(revision, amount int64, state Status) Sighting {
		s := cardSighting("ref-1", state)
		s.EvidenceLevel, s.Revision, s.Amount, s.USDCents = LevelManual, revision, amount, ptr(amount)
		s.OccurredAt = 900 - revision
		return s
	}
	first, corrected, undone := entry(0, 4_200, StatusConfirmed), entry(1, 2_400, StatusConfirmed), entry(2, 2_400, StatusDropped)
	r := fold([]Sighting{first, corrected})
	require.EqualValues(t, 2_400, r.Amount)
	require.Equal(t, ptr(int64(2_400)), r.USDCents)
	require.EqualValues(t, 899, r.OccurredAt)
	require.Equal(t, r, fold([]Sighting{corrected, first}), "a lower one is too late")
	require.EqualValues(t, 2_500, fold([]Sighting{corrected, entry(1, 2_500, StatusSeen)}).Amount, "equal ones are joined")
	require.Equal(t, StatusDropped, fold([]Sighting{first, undone, corrected}).Status)
	webhook := cardSighting("ref-1", StatusConfirmed)
	webhook.Amount = 9_999
	require.Equal(t, r, fold([]Sighting{corrected, webhook}))
	require.Equal(t, r, fold([]Sighting{webhook, corrected}))
}

func TestViaAndOwnAreOnlyAdded(t *testing.T) {
	labelled, plain := chainSighting("0xa", StatusSeen), chainSighting("0xa", StatusConfirmed)
	labelled.Via, labelled.Own = "x402", true
	for _, order := range [][]Sighting{{labelled, plain}, {plain, labelled}} {
		r := fold(order)
		require.Equal(t, "x402", r.Via)
		require.True(t, r.Own)
	}
}

func TestFirstKnownValueOfAnAmountStays(t *testing.T) {
	unknown := chainSighting("0xa", StatusSeen)
	unknown.USDCents = nil
	first, later := chainSighting("0xa", StatusConfirmed), chainSighting("0xa", StatusConfirmed)
	first.USDCents, later.USDCents, later.Final = ptr(int64(4_100)), ptr(int64(3_900)), true
	require.Equal(t, ptr(int64(4_100)), fold([]Sighting{unknown, first, later}).USDCents)
	other := later
	other.Amount--
	require.Equal(t, ptr(int64(3_900)), fold([]Sighting{first, other}).USDCents)
	final := unknown
	final.Final = true
	require.Equal(t, ptr(int64(4_100)), fold([]Sighting{final, first}).USDCents, "known after it became final")
}

func TestRefundsNeverOverflow(t *testing.T) {
	s := cardSighting("pi_1", StatusConfirmed)
	s.Amount, s.USDCents = math.MaxInt64, ptr(int64(math.MaxInt64))
	s.Returns = []Return{
		{ID: "re_1", Kind: ReturnRefund, Amount: math.MaxInt64, Gone: true},
		{ID: "re_2", Kind: ReturnRefund, Amount: math.MaxInt64, Gone: true},
	}
	r := fold([]Sighting{s})
	require.EqualValues(t, math.MaxInt64, r.Refunded)
	require.EqualValues(t, math.MaxInt64, r.RefundedCents)
	s.Amount, s.USDCents = 3, ptr(int64(100))
	s.Returns = []Return{{ID: "re_1", Kind: ReturnRefund, Amount: 1, Gone: true}}
	require.EqualValues(t, 33, fold([]Sighting{s}).RefundedCents)
}
