package book_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/book"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/sightings"
)

func ptr[T any](v T) *T { return &v }

func TestEveryOrderOfACardLifeEndsTheSame(t *testing.T) {
	life := sightings.CardLife()
	want := sightings.Fold(life)
	require.Equal(t, book.StatusRefunded, want.Status)
	require.EqualValues(t, 4_200, want.RefundedCents)
	count := 0
	sightings.Permute(life, func(order []book.Sighting) {
		count++
		require.Equal(t, want, sightings.Fold(order))
		require.Equal(t, want, sightings.Fold(append(order[:7:7], order[0], order[3])), "duplicates change nothing")
	})
	require.Equal(t, 5_040, count)
}

func TestStatusFollowsTheFacts(t *testing.T) {
	pending, paid := sightings.Card("pi_1", book.StatusSeen), sightings.Card("pi_1", book.StatusConfirmed)
	failed := sightings.Card("pi_1", book.StatusDropped)
	refund := func(id string, amount int64, gone bool, at int64) book.Sighting {
		return sightings.Returned("pi_1", book.Return{ID: id, Kind: book.ReturnRefund, Amount: amount, Gone: gone, At: at})
	}
	total := func(amount, at int64) book.Sighting {
		return sightings.Returned("pi_1", book.Return{ID: "ch_1", Kind: book.ReturnTotal, Amount: amount, Gone: true, At: at})
	}
	dispute := func(id string, gone bool, at int64) book.Sighting {
		return sightings.Returned("pi_1", book.Return{ID: id, Kind: book.ReturnReversal, Gone: gone, At: at})
	}
	part := func(id string, amount int64, gone bool, at int64) book.Sighting {
		return sightings.Returned("pi_1", book.Return{ID: id, Kind: book.ReturnReversal, Amount: amount, Gone: gone, At: at})
	}
	for name, c := range map[string]struct {
		life     []book.Sighting
		want     book.Status
		refunded int64
	}{
		"disputed in part":                 {[]book.Sighting{paid, part("dp_1", 1_000, true, 1)}, book.StatusConfirmed, 1_000},
		"disputed in part, won":            {[]book.Sighting{part("dp_1", 1_000, false, 2), paid, part("dp_1", 1_000, true, 1)}, book.StatusConfirmed, 0},
		"disputed in part after a refund":  {[]book.Sighting{part("dp_1", 1_000, true, 1), paid, refund("re_1", 500, true, 1)}, book.StatusConfirmed, 1_500},
		"disputed for all that was left":   {[]book.Sighting{refund("re_1", 500, true, 1), part("dp_1", 3_700, true, 1), paid}, book.StatusReversed, 500},
		"disputed for more than was paid":  {[]book.Sighting{paid, part("dp_1", 9_000, true, 1)}, book.StatusReversed, 0},
		"disputed twice, all of it":        {[]book.Sighting{paid, part("dp_1", 2_000, true, 1), part("dp_2", 2_200, true, 1)}, book.StatusReversed, 0},
		"disputed in part, then the whole": {[]book.Sighting{paid, part("dp_1", 2_000, true, 1), dispute("dp_2", true, 1)}, book.StatusReversed, 0},
		"pending":                          {[]book.Sighting{pending}, book.StatusSeen, 0},
		"failed":                           {[]book.Sighting{pending, failed}, book.StatusDropped, 0},
		"paid after a failure":             {[]book.Sighting{paid, failed}, book.StatusConfirmed, 0},
		"refunded in part":                 {[]book.Sighting{paid, refund("re_1", 2_100, true, 1)}, book.StatusConfirmed, 2_100},
		"refunded in part, twice":          {[]book.Sighting{paid, refund("re_1", 2_100, true, 1), refund("re_2", 2_100, true, 1)}, book.StatusRefunded, 4_200},
		"refunded before it was paid":      {[]book.Sighting{refund("re_1", 4_200, true, 1), paid}, book.StatusRefunded, 4_200},
		"refunded while pending":           {[]book.Sighting{pending, refund("re_1", 4_200, true, 1)}, book.StatusRefunded, 4_200},
		"refund pending":                   {[]book.Sighting{paid, refund("re_1", 4_200, false, 1)}, book.StatusConfirmed, 0},
		"refund failed":                    {[]book.Sighting{paid, refund("re_1", 4_200, true, 1), refund("re_1", 4_200, false, 2)}, book.StatusConfirmed, 0},
		"refunded more than was paid":      {[]book.Sighting{paid, refund("re_1", 9_000, true, 1)}, book.StatusRefunded, 4_200},
		"total":                            {[]book.Sighting{paid, total(1_000, 1), total(4_200, 2)}, book.StatusRefunded, 4_200},
		"total of a known refund":          {[]book.Sighting{paid, total(4_200, 2), refund("re_1", 4_200, false, 3)}, book.StatusConfirmed, 0},
		"total with an untold refund":      {[]book.Sighting{paid, refund("re_1", 1_000, true, 1), total(4_200, 2)}, book.StatusRefunded, 4_200},
		"total with one that failed":       {[]book.Sighting{total(4_200, 2), refund("re_1", 1_000, false, 3), paid}, book.StatusConfirmed, 3_200},
		"total from before a refund":       {[]book.Sighting{paid, refund("re_1", 1_000, true, 1), refund("re_2", 500, true, 3), total(1_000, 2)}, book.StatusConfirmed, 1_500},
		"disputed":                         {[]book.Sighting{paid, dispute("dp_1", true, 1)}, book.StatusReversed, 0},
		"dispute won":                      {[]book.Sighting{dispute("dp_1", true, 1), dispute("dp_1", false, 2), paid}, book.StatusConfirmed, 0},
		"one dispute won, one lost":        {[]book.Sighting{paid, dispute("dp_1", false, 2), dispute("dp_2", true, 1)}, book.StatusReversed, 0},
		"dispute lost after a refund":      {[]book.Sighting{paid, refund("re_1", 4_200, true, 1), dispute("dp_1", true, 2)}, book.StatusReversed, 4_200},
		"refund of what never arrived":     {[]book.Sighting{failed, refund("re_1", 4_200, true, 1)}, book.StatusDropped, 4_200},
	} {
		t.Run(name, func(t *testing.T) {
			r := sightings.Fold(c.life)
			require.Equal(t, c.want, r.Status)
			require.Equal(t, c.refunded, r.Refunded)
		})
	}
}

func TestReturnsOfAnUnknownPaymentMakeNoRow(t *testing.T) {
	require.Zero(t, sightings.Fold([]book.Sighting{sightings.Returned("pi_1", book.Return{ID: "re_1", Kind: book.ReturnRefund, Amount: 1, Gone: true})}))
}

func TestLessTrustedWordsMoveNothing(t *testing.T) {
	entered := sightings.Card("sale", book.StatusConfirmed)
	entered.EvidenceLevel, entered.Amount = book.LevelManual, 9_999
	read := sightings.Card("sale", book.StatusSeen)
	read.EvidenceLevel = book.LevelProvider
	back := sightings.Returned("sale", book.Return{ID: "refunded", Kind: book.ReturnTotal, Amount: 100, Gone: true, At: 1})
	for _, order := range [][]book.Sighting{{entered, read, back}, {read, entered, back}, {back, entered, read}} {
		r := sightings.Fold(order)
		require.Equal(t, book.StatusSeen, r.Status)
		require.EqualValues(t, 4_200, r.Amount)
		require.Equal(t, book.LevelProvider, r.EvidenceLevel)
		require.EqualValues(t, 100, r.Refunded)
	}
	manual := sightings.Chain("0xa", book.StatusConfirmed)
	manual.EvidenceLevel = book.LevelManual
	require.Equal(t, book.StatusSeen, sightings.Fold([]book.Sighting{sightings.Chain("0xa", book.StatusSeen), manual}).Status)
}

func TestHighestRevisionHolds(t *testing.T) {
	entry := func(revision, amount int64, state book.Status) book.Sighting {
		s := sightings.Card("ref-1", state)
		s.EvidenceLevel, s.Revision, s.Amount, s.USDCents = book.LevelManual, revision, amount, ptr(amount)
		s.OccurredAt = 900 - revision
		return s
	}
	first, corrected, undone := entry(0, 4_200, book.StatusConfirmed), entry(1, 2_400, book.StatusConfirmed), entry(2, 2_400, book.StatusDropped)
	r := sightings.Fold([]book.Sighting{first, corrected})
	require.EqualValues(t, 2_400, r.Amount)
	require.Equal(t, ptr(int64(2_400)), r.USDCents)
	require.EqualValues(t, 899, r.OccurredAt)
	require.Equal(t, r, sightings.Fold([]book.Sighting{corrected, first}), "a lower one is too late")
	require.EqualValues(t, 2_500, sightings.Fold([]book.Sighting{corrected, entry(1, 2_500, book.StatusSeen)}).Amount, "equal ones are joined")
	require.Equal(t, book.StatusDropped, sightings.Fold([]book.Sighting{first, undone, corrected}).Status)
}

// TestADisputeIsOfItsCurrencyWheneverItIsTold: it may come before its payment.
func TestADisputeIsOfItsCurrencyWheneverItIsTold(t *testing.T) {
	paid := sightings.Card("pi_1", book.StatusConfirmed)
	paid.Asset, paid.Amount, paid.USDCents = "EUR", 4_000, nil
	for currency, want := range map[string]book.Status{"EUR": book.StatusConfirmed, "": book.StatusConfirmed, "USD": book.StatusReversed} {
		taken := sightings.Returned("pi_1", book.Return{ID: "dp_1", Kind: book.ReturnReversal, Amount: 1_000, Currency: currency, Gone: true, At: 1})
		for _, order := range [][]book.Sighting{{paid, taken}, {taken, paid}} {
			r := sightings.Fold(order)
			require.Equal(t, want, r.Status, currency)
			if want == book.StatusConfirmed {
				require.EqualValues(t, 1_000, r.Refunded)
			}
		}
	}
}

// TestAnEntryGivesWayToWhatProvesThePayment: two words on one payment are never
// blended into an amount that neither of them says.
func TestAnEntryGivesWayToWhatProvesThePayment(t *testing.T) {
	entered := sightings.Card("pi_1", book.StatusConfirmed)
	entered.EvidenceLevel, entered.Revision = book.LevelManual, 2
	inYen := sightings.Card("pi_1", book.StatusConfirmed)
	inYen.Asset, inYen.Amount, inYen.USDCents = "JPY", 6_300, nil
	failed := sightings.Card("pi_1", book.StatusDropped)
	failed.EvidenceLevel = book.LevelProvider
	for _, proof := range []book.Sighting{inYen, failed} {
		want := sightings.Fold([]book.Sighting{proof})
		require.Equal(t, want, sightings.Fold([]book.Sighting{entered, proof}))
		require.Equal(t, want, sightings.Fold([]book.Sighting{proof, entered}))
	}
}

func TestViaAndOwnAreOnlyAdded(t *testing.T) {
	labelled, plain := sightings.Chain("0xa", book.StatusSeen), sightings.Chain("0xa", book.StatusConfirmed)
	labelled.Via, labelled.Own = "x402", true
	for _, order := range [][]book.Sighting{{labelled, plain}, {plain, labelled}} {
		r := sightings.Fold(order)
		require.Equal(t, "x402", r.Via)
		require.True(t, r.Own)
	}
}

func TestANonceIsOnlyAdded(t *testing.T) {
	plain, other := sightings.Chain("0xa", book.StatusSeen), sightings.Chain("0xa", book.StatusConfirmed)
	final, nonce := plain, other
	final.Final = true
	nonce.Nonce, other.Nonce = sightings.Nonce(1), sightings.Nonce(2)
	require.NoError(t, nonce.Validate())
	for want, order := range map[string][]book.Sighting{
		nonce.Nonce: {final, nonce, plain, other},
		other.Nonce: {nonce, plain, other, plain},
	} {
		require.Equal(t, want, sightings.Fold(order).Nonce)
	}
	old := sightings.Fold([]book.Sighting{final})
	next, _ := book.Merge(old, nil, nonce)
	require.False(t, next.Moved(old), "it is no transition")
}

func TestFirstKnownValueOfAnAmountStays(t *testing.T) {
	unknown := sightings.Chain("0xa", book.StatusSeen)
	unknown.USDCents = nil
	first, later := sightings.Chain("0xa", book.StatusConfirmed), sightings.Chain("0xa", book.StatusConfirmed)
	first.USDCents, later.USDCents, later.Final = ptr(int64(4_100)), ptr(int64(3_900)), true
	require.Equal(t, ptr(int64(4_100)), sightings.Fold([]book.Sighting{unknown, first, later}).USDCents)
	other := later
	other.Amount--
	require.Equal(t, ptr(int64(3_900)), sightings.Fold([]book.Sighting{first, other}).USDCents)
	final := unknown
	final.Final = true
	require.Equal(t, ptr(int64(4_100)), sightings.Fold([]book.Sighting{final, first}).USDCents, "known after it became final")
}

func TestRefundsNeverOverflow(t *testing.T) {
	s := sightings.Card("pi_1", book.StatusConfirmed)
	s.Amount, s.USDCents = math.MaxInt64, ptr(int64(math.MaxInt64))
	s.Returns = []book.Return{
		{ID: "re_1", Kind: book.ReturnRefund, Amount: math.MaxInt64, Gone: true},
		{ID: "re_2", Kind: book.ReturnRefund, Amount: math.MaxInt64, Gone: true},
	}
	r := sightings.Fold([]book.Sighting{s})
	require.Equal(t, int64(math.MaxInt64), r.Refunded)
	require.EqualValues(t, int64(math.MaxInt64), r.RefundedCents)
	s.Amount, s.USDCents = 3, ptr(int64(100))
	s.Returns = []book.Return{{ID: "re_1", Kind: book.ReturnRefund, Amount: 1, Gone: true}}
	require.EqualValues(t, 33, sightings.Fold([]book.Sighting{s}).RefundedCents)
}

// A chain's payment that waits may lose its value, as that of a quote which it was
// mined too late for.
func TestTheValueOfWhatIsNotConfirmedMayChange(t *testing.T) {
	seen, later, confirmed := sightings.Chain("0xa", book.StatusSeen), sightings.Chain("0xa", book.StatusSeen), sightings.Chain("0xa", book.StatusConfirmed)
	seen.USDCents, later.USDCents, confirmed.USDCents = ptr(int64(4_200)), nil, ptr(int64(2_000))
	require.Nil(t, sightings.Fold([]book.Sighting{seen, later}).USDCents)
	require.Equal(t, ptr(int64(2_000)), sightings.Fold([]book.Sighting{seen, confirmed}).USDCents)
	require.Equal(t, ptr(int64(2_000)), sightings.Fold([]book.Sighting{seen, confirmed, seen}).USDCents)
}
