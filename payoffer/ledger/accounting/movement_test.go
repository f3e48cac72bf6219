package accounting

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// at is a moment of a payment of 100 atomic units that are worth a cent each.
func at(unix int64, status Status, refunded int64) Moment {
	return moment(unix, status, 100, refunded, centsOf(100))
}

func moment(unix int64, status Status, amount, refunded int64, cents *int64) Moment {
	facts := Facts{Classification: Classification{Status: status}, Amount: amount, Refunded: refunded, USDCents: cents, OccurredAt: 10}
	return Moment{Facts: facts, At: unix, RecordedAt: unix}
}

func centsOf(n int64) *int64 { return &n }

// written are movements as "kind date amount USD".
func written(lines []Movement) (all []string) {
	for _, m := range lines {
		usd := "?"
		if m.USDCents != nil {
			usd = fmt.Sprint(*m.USDCents)
		}
		line := fmt.Sprint(m.Kind, " ", m.At, " ", m.Amount, " ", usd)
		if !m.Arrived {
			line += " (no money)"
		}
		all = append(all, line)
	}
	return all
}

func TestMovementDates(t *testing.T) {
	for name, c := range map[string]struct {
		history []Moment
		want    []string
	}{
		"paid": {[]Moment{at(20, StatusSeen, 0), at(30, StatusConfirmed, 0)}, []string{"payment 10 100 100"}},
		"refunded in parts": {
			[]Moment{at(20, StatusConfirmed, 0), at(30, StatusConfirmed, 25), at(40, StatusRefunded, 100)},
			[]string{"payment 10 100 100", "refund 30 -25 -25", "refund 40 -75 -75"},
		},
		"a refund that failed": {
			[]Moment{at(20, StatusConfirmed, 0), at(30, StatusConfirmed, 25), at(40, StatusConfirmed, 0)},
			[]string{"payment 10 100 100", "refund 30 -25 -25", "refund_undone 40 25 25"},
		},
		"a dispute after a refund, won": {
			[]Moment{at(20, StatusConfirmed, 0), at(30, StatusConfirmed, 25), at(40, StatusReversed, 25), at(50, StatusConfirmed, 25)},
			[]string{"payment 10 100 100", "refund 30 -25 -25", "reversal 40 -75 -75", "reversal_undone 50 75 75"},
		},
		"known after its refund": {[]Moment{at(20, StatusRefunded, 100)}, []string{"payment 10 100 100", "refund 20 -100 -100"}},
		"left the chain and came back": {
			[]Moment{at(20, StatusConfirmed, 0), at(30, StatusDropped, 0), at(40, StatusSeen, 0), at(50, StatusConfirmed, 0)},
			[]string{"payment 10 100 100", "dropped 30 -100 -100", "payment 10 100 100"},
		},
		"never paid": {[]Moment{at(20, StatusSeen, 0), at(30, StatusDropped, 0)}, []string{"payment 10 100 100 (no money)"}},
		"only seen":  {[]Moment{at(20, StatusSeen, 0)}, []string{"payment 10 100 100 (no money)"}},
		"own money":  {[]Moment{at(20, StatusMoved, 0)}, []string{"payment 10 100 100 (no money)"}},
		"corrected": {
			[]Moment{moment(20, StatusConfirmed, 60, 0, centsOf(60)), at(30, StatusConfirmed, 0)},
			[]string{"payment 10 60 60", "correction 30 40 40"},
		},
		"valued late": {
			[]Moment{moment(20, StatusConfirmed, 100, 0, nil), moment(30, StatusConfirmed, 100, 50, nil), at(40, StatusConfirmed, 50)},
			[]string{"payment 10 100 100", "refund 30 -50 -50"},
		},
		"corrected and valued late": {
			[]Moment{moment(20, StatusConfirmed, 60, 0, nil), at(30, StatusConfirmed, 0)},
			[]string{"payment 10 60 ?", "correction 30 40 100"},
		},
		"valued otherwise": {
			[]Moment{moment(20, StatusConfirmed, 100, 0, centsOf(90)), at(30, StatusConfirmed, 0)},
			[]string{"payment 10 100 90", "valuation 30 0 10"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			last := c.history[len(c.history)-1]
			r := Receipt{Version: 1, OccurredAt: 10, Amount: last.Amount, Status: last.Status, Refunded: last.Refunded, USDCents: last.USDCents}
			require.Equal(t, c.want, written(Movements(r, c.history)))
		})
	}
}

func dated(m Moment, unix int64) Moment {
	m.OccurredAt = unix
	return m
}

// A closed month does not change: what changes later is a line of its own, and says when it was recorded.
func TestMovementDatesNeverChange(t *testing.T) {
	paid := dated(at(20, StatusConfirmed, 0), 15)
	r := Receipt{Version: 3, OccurredAt: 12, Amount: 100, Status: StatusConfirmed, USDCents: centsOf(100), EvidenceLevel: LevelManual}
	require.Equal(t, []string{"payment 15 100 100", "reversal 30 -100 -100", "reversal_undone 12 100 100"},
		written(Movements(r, []Moment{paid, dated(at(30, StatusReversed, 0), 15), dated(at(40, StatusConfirmed, 0), 12)})),
		"entered again with another date")
	require.Equal(t, []string{"payment 15 100 100", "reversal 30 -100 -100", "reversal_undone 40 100 100"},
		written(Movements(r, []Moment{paid, dated(at(30, StatusReversed, 0), 15), dated(at(40, StatusConfirmed, 0), 15)})),
		"entered again with its own date")

	r.EvidenceLevel = LevelChain
	require.Equal(t, []string{"payment 15 100 100", "dropped 30 -100 -100", "payment 12 100 100"},
		written(Movements(r, []Moment{paid, dated(at(30, StatusSeen, 0), 15), dated(at(40, StatusConfirmed, 0), 18)})),
		"the payment in the block that stays has the date of that block")
	require.Equal(t, []string{"payment 12 100 100"}, written(Movements(r, []Moment{paid})), "the block was replaced between two readings")
}

func TestMovementNamesAndRecordedDates(t *testing.T) {
	r := Receipt{Version: 4, OccurredAt: 10, Amount: 100, Status: StatusConfirmed, USDCents: centsOf(100)}
	refunded := moment(30, StatusConfirmed, 110, 50, nil)
	refunded.Version, refunded.Reason = 2, "half of it"
	paid := moment(20, StatusConfirmed, 100, 0, nil)
	paid.Version = 1
	moments := []Moment{paid, refunded}
	names := func() (all []string) {
		for _, m := range Movements(r, moments) {
			all = append(all, fmt.Sprint(m.Kind, " ", m.Version, ".", m.Part, " ", m.RecordedAt, " ", m.Reason))
		}
		return all
	}
	require.Equal(t, []string{"payment 1.1 20 ", "correction 2.1 30 half of it", "refund 2.2 30 half of it"}, names())
	require.Equal(t, []string{"payment 10 100 100", "correction 30 10 0", "refund 30 -50 -45"}, written(Movements(r, []Moment{moment(20, StatusConfirmed, 100, 0, centsOf(100)), refunded})),
		"a value that is not stated again stays")
	own := moment(40, StatusConfirmed, 110, 50, nil)
	own.Version, own.Own = 3, true
	moments = append(moments, own)
	require.Equal(t, []string{"payment 1.1 40 ", "correction 2.1 40 half of it", "refund 2.2 40 half of it"}, names(), "the column own changed")
	valued := moment(50, StatusConfirmed, 110, 50, centsOf(100))
	valued.Version, valued.Own = 4, true
	moments = append(moments, valued)
	require.Equal(t, []string{"payment 1.1 50 ", "correction 2.1 50 half of it", "refund 2.2 50 half of it"}, names()[:3], "the value became known")
}
