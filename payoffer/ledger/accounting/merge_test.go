package accounting_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/observations"
)

func ptr[T any](v T) *T { return &v }

func TestEveryOrderOfCardEventsGivesSameReceipt(t *testing.T) {
	life := observations.CardLife()
	want := observations.Fold(life)
	require.Equal(t, accounting.StatusRefunded, want.Status)
	require.EqualValues(t, 4_200, want.RefundedCents)
	count := 0
	observations.Permute(life, func(order []accounting.Observation) {
		count++
		require.Equal(t, want, observations.Fold(order))
		require.Equal(t, want, observations.Fold(append(order[:7:7], order[0], order[3])), "duplicates change nothing")
	})
	require.Equal(t, 5_040, count)
}

func TestReceiptStatus(t *testing.T) {
	pending, paid := observations.Card("pi_1", accounting.StatusSeen), observations.Card("pi_1", accounting.StatusConfirmed)
	failed := observations.Card("pi_1", accounting.StatusDropped)
	refund := func(id string, amount int64, gone bool, at int64) accounting.Observation {
		return observations.Returned("pi_1", accounting.Return{ID: id, Kind: accounting.ReturnRefund, Amount: amount, Gone: gone, At: at})
	}
	total := func(amount, at int64) accounting.Observation {
		return observations.Returned("pi_1", accounting.Return{ID: "ch_1", Kind: accounting.ReturnTotal, Amount: amount, Gone: true, At: at})
	}
	dispute := func(id string, gone bool, at int64) accounting.Observation {
		return observations.Returned("pi_1", accounting.Return{ID: id, Kind: accounting.ReturnReversal, Gone: gone, At: at})
	}
	part := func(id string, amount int64, gone bool, at int64) accounting.Observation {
		return observations.Returned("pi_1", accounting.Return{ID: id, Kind: accounting.ReturnReversal, Amount: amount, Gone: gone, At: at})
	}
	for name, c := range map[string]struct {
		life     []accounting.Observation
		want     accounting.Status
		refunded int64
	}{
		"disputed in part":                 {[]accounting.Observation{paid, part("dp_1", 1_000, true, 1)}, accounting.StatusConfirmed, 1_000},
		"disputed in part, won":            {[]accounting.Observation{part("dp_1", 1_000, false, 2), paid, part("dp_1", 1_000, true, 1)}, accounting.StatusConfirmed, 0},
		"disputed in part after a refund":  {[]accounting.Observation{part("dp_1", 1_000, true, 1), paid, refund("re_1", 500, true, 1)}, accounting.StatusConfirmed, 1_500},
		"disputed for all that was left":   {[]accounting.Observation{refund("re_1", 500, true, 1), part("dp_1", 3_700, true, 1), paid}, accounting.StatusReversed, 500},
		"disputed for more than was paid":  {[]accounting.Observation{paid, part("dp_1", 9_000, true, 1)}, accounting.StatusReversed, 0},
		"disputed twice, all of it":        {[]accounting.Observation{paid, part("dp_1", 2_000, true, 1), part("dp_2", 2_200, true, 1)}, accounting.StatusReversed, 0},
		"disputed in part, then the whole": {[]accounting.Observation{paid, part("dp_1", 2_000, true, 1), dispute("dp_2", true, 1)}, accounting.StatusReversed, 0},
		"pending":                          {[]accounting.Observation{pending}, accounting.StatusSeen, 0},
		"failed":                           {[]accounting.Observation{pending, failed}, accounting.StatusDropped, 0},
		"paid after a failure":             {[]accounting.Observation{paid, failed}, accounting.StatusConfirmed, 0},
		"refunded in part":                 {[]accounting.Observation{paid, refund("re_1", 2_100, true, 1)}, accounting.StatusConfirmed, 2_100},
		"refunded in part, twice":          {[]accounting.Observation{paid, refund("re_1", 2_100, true, 1), refund("re_2", 2_100, true, 1)}, accounting.StatusRefunded, 4_200},
		"refunded before it was paid":      {[]accounting.Observation{refund("re_1", 4_200, true, 1), paid}, accounting.StatusRefunded, 4_200},
		"refunded while pending":           {[]accounting.Observation{pending, refund("re_1", 4_200, true, 1)}, accounting.StatusRefunded, 4_200},
		"refund pending":                   {[]accounting.Observation{paid, refund("re_1", 4_200, false, 1)}, accounting.StatusConfirmed, 0},
		"refund failed":                    {[]accounting.Observation{paid, refund("re_1", 4_200, true, 1), refund("re_1", 4_200, false, 2)}, accounting.StatusConfirmed, 0},
		"refunded more than was paid":      {[]accounting.Observation{paid, refund("re_1", 9_000, true, 1)}, accounting.StatusRefunded, 4_200},
		"total":                            {[]accounting.Observation{paid, total(1_000, 1), total(4_200, 2)}, accounting.StatusRefunded, 4_200},
		"total of a known refund":          {[]accounting.Observation{paid, total(4_200, 2), refund("re_1", 4_200, false, 3)}, accounting.StatusConfirmed, 0},
		"total with an untold refund":      {[]accounting.Observation{paid, refund("re_1", 1_000, true, 1), total(4_200, 2)}, accounting.StatusRefunded, 4_200},
		"total with one that failed":       {[]accounting.Observation{total(4_200, 2), refund("re_1", 1_000, false, 3), paid}, accounting.StatusConfirmed, 3_200},
		"total from before a refund":       {[]accounting.Observation{paid, refund("re_1", 1_000, true, 1), refund("re_2", 500, true, 3), total(1_000, 2)}, accounting.StatusConfirmed, 1_500},
		"disputed":                         {[]accounting.Observation{paid, dispute("dp_1", true, 1)}, accounting.StatusReversed, 0},
		"dispute won":                      {[]accounting.Observation{dispute("dp_1", true, 1), dispute("dp_1", false, 2), paid}, accounting.StatusConfirmed, 0},
		"one dispute won, one lost":        {[]accounting.Observation{paid, dispute("dp_1", false, 2), dispute("dp_2", true, 1)}, accounting.StatusReversed, 0},
		"dispute lost after a refund":      {[]accounting.Observation{paid, refund("re_1", 4_200, true, 1), dispute("dp_1", true, 2)}, accounting.StatusReversed, 4_200},
		"refund of what never arrived":     {[]accounting.Observation{failed, refund("re_1", 4_200, true, 1)}, accounting.StatusDropped, 4_200},
	} {
		t.Run(name, func(t *testing.T) {
			r := observations.Fold(c.life)
			require.Equal(t, c.want, r.Status)
			require.Equal(t, c.refunded, r.Refunded)
		})
	}
}

func TestLessTrustedEvidenceChangesNothing(t *testing.T) {
	entered := observations.Card("sale", accounting.StatusConfirmed)
	entered.EvidenceLevel, entered.Amount = accounting.LevelManual, 9_999
	read := observations.Card("sale", accounting.StatusSeen)
	read.EvidenceLevel = accounting.LevelProvider
	back := observations.Returned("sale", accounting.Return{ID: "refunded", Kind: accounting.ReturnTotal, Amount: 100, Gone: true, At: 1})
	for _, order := range [][]accounting.Observation{{entered, read, back}, {read, entered, back}, {back, entered, read}} {
		r := observations.Fold(order)
		require.Equal(t, accounting.StatusSeen, r.Status)
		require.EqualValues(t, 4_200, r.Amount)
		require.Equal(t, accounting.LevelProvider, r.EvidenceLevel)
		require.EqualValues(t, 100, r.Refunded)
	}
	manual := observations.Chain("0xa", accounting.StatusConfirmed)
	manual.EvidenceLevel = accounting.LevelManual
	require.Equal(t, accounting.StatusSeen, observations.Fold([]accounting.Observation{observations.Chain("0xa", accounting.StatusSeen), manual}).Status)
}

func TestHighestRevisionWins(t *testing.T) {
	entry := func(revision, amount int64, state accounting.Status) accounting.Observation {
		s := observations.Card("ref-1", state)
		s.EvidenceLevel, s.Revision, s.Amount, s.USDCents = accounting.LevelManual, revision, amount, ptr(amount)
		s.OccurredAt = 900 - revision
		return s
	}
	first, corrected, undone := entry(0, 4_200, accounting.StatusConfirmed), entry(1, 2_400, accounting.StatusConfirmed), entry(2, 2_400, accounting.StatusDropped)
	r := observations.Fold([]accounting.Observation{first, corrected})
	require.EqualValues(t, 2_400, r.Amount)
	require.Equal(t, ptr(int64(2_400)), r.USDCents)
	require.EqualValues(t, 899, r.OccurredAt)
	require.Equal(t, r, observations.Fold([]accounting.Observation{corrected, first}), "a lower one is too late")
	require.EqualValues(t, 2_500, observations.Fold([]accounting.Observation{corrected, entry(1, 2_500, accounting.StatusSeen)}).Amount, "equal ones are joined")
	require.Equal(t, accounting.StatusDropped, observations.Fold([]accounting.Observation{first, undone, corrected}).Status)
}

// It may come before its payment.
func TestDisputeCurrency(t *testing.T) {
	paid := observations.Card("pi_1", accounting.StatusConfirmed)
	paid.Asset, paid.Amount, paid.USDCents = "EUR", 4_000, nil
	for currency, want := range map[string]accounting.Status{"EUR": accounting.StatusConfirmed, "": accounting.StatusConfirmed, "USD": accounting.StatusReversed} {
		taken := observations.Returned("pi_1", accounting.Return{ID: "dp_1", Kind: accounting.ReturnReversal, Amount: 1_000, Currency: currency, Gone: true, At: 1})
		for _, order := range [][]accounting.Observation{{paid, taken}, {taken, paid}} {
			r := observations.Fold(order)
			require.Equal(t, want, r.Status, currency)
			if want == accounting.StatusConfirmed {
				require.EqualValues(t, 1_000, r.Refunded)
			}
		}
	}
}

// Two words on one payment are never
// blended into an amount that neither of them says.
func TestProofReplacesManualEntry(t *testing.T) {
	entered := observations.Card("pi_1", accounting.StatusConfirmed)
	entered.EvidenceLevel, entered.Revision = accounting.LevelManual, 2
	inYen := observations.Card("pi_1", accounting.StatusConfirmed)
	inYen.Asset, inYen.Amount, inYen.USDCents = "JPY", 6_300, nil
	failed := observations.Card("pi_1", accounting.StatusDropped)
	failed.EvidenceLevel = accounting.LevelProvider
	for _, proof := range []accounting.Observation{inYen, failed} {
		want := observations.Fold([]accounting.Observation{proof})
		require.Equal(t, want, observations.Fold([]accounting.Observation{entered, proof}))
		require.Equal(t, want, observations.Fold([]accounting.Observation{proof, entered}))
	}
}

func TestNonceNeverChanges(t *testing.T) {
	plain, other := observations.Chain("0xa", accounting.StatusSeen), observations.Chain("0xa", accounting.StatusConfirmed)
	final, nonce := plain, other
	final.Final = true
	nonce.Nonce, other.Nonce = observations.Nonce(1), observations.Nonce(2)
	require.NoError(t, nonce.Validate())
	for want, order := range map[string][]accounting.Observation{
		nonce.Nonce: {final, nonce, plain, other},
		other.Nonce: {nonce, plain, other, plain},
	} {
		require.Equal(t, want, observations.Fold(order).Nonce)
	}
	old := observations.Fold([]accounting.Observation{final})
	next, _ := accounting.Merge(old, nil, nonce)
	require.False(t, next.Moved(old), "it is no transition")
}

func TestFirstKnownValueStays(t *testing.T) {
	unknown := observations.Chain("0xa", accounting.StatusSeen)
	unknown.USDCents = nil
	first, later := observations.Chain("0xa", accounting.StatusConfirmed), observations.Chain("0xa", accounting.StatusConfirmed)
	first.USDCents, later.USDCents, later.Final = ptr(int64(4_100)), ptr(int64(3_900)), true
	require.Equal(t, ptr(int64(4_100)), observations.Fold([]accounting.Observation{unknown, first, later}).USDCents)
	other := later
	other.Amount--
	require.Equal(t, ptr(int64(3_900)), observations.Fold([]accounting.Observation{first, other}).USDCents)
	final := unknown
	final.Final = true
	require.Equal(t, ptr(int64(4_100)), observations.Fold([]accounting.Observation{final, first}).USDCents, "known after it became final")
}

func TestRefundsNeverOverflow(t *testing.T) {
	s := observations.Card("pi_1", accounting.StatusConfirmed)
	s.Amount, s.USDCents = math.MaxInt64, ptr(int64(math.MaxInt64))
	s.Returns = []accounting.Return{
		{ID: "re_1", Kind: accounting.ReturnRefund, Amount: math.MaxInt64, Gone: true},
		{ID: "re_2", Kind: accounting.ReturnRefund, Amount: math.MaxInt64, Gone: true},
	}
	r := observations.Fold([]accounting.Observation{s})
	require.Equal(t, int64(math.MaxInt64), r.Refunded)
	require.EqualValues(t, int64(math.MaxInt64), r.RefundedCents)
	s.Amount, s.USDCents = 3, ptr(int64(100))
	s.Returns = []accounting.Return{{ID: "re_1", Kind: accounting.ReturnRefund, Amount: 1, Gone: true}}
	require.EqualValues(t, 33, observations.Fold([]accounting.Observation{s}).RefundedCents)
}
