package accounting

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// at is a moment of a payment of 100 atomic units that are worth a cent each.
func at(unix int64, status Status, refunded int64) Moment {
	return Moment{Status: status, Amount: 100, Refunded: refunded, USDCents: centsOf(100), At: unix}
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

func TestEachMovementOfMoneyIsALineWithItsOwnDate(t *testing.T) {
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
			[]string{"payment 10 100 100", "dropped 30 -100 -100", "payment 50 100 100"},
		},
		"never paid": {[]Moment{at(20, StatusSeen, 0), at(30, StatusDropped, 0)}, []string{"payment 10 100 100 (no money)"}},
		"only seen":  {[]Moment{at(20, StatusSeen, 0)}, []string{"payment 10 100 100 (no money)"}},
		"own money":  {[]Moment{at(20, StatusMoved, 0)}, []string{"payment 10 100 100 (no money)"}},
		"corrected": {
			[]Moment{{Status: StatusConfirmed, Amount: 60, USDCents: centsOf(60), At: 20}, at(30, StatusConfirmed, 0)},
			[]string{"payment 10 60 60", "correction 30 40 40"},
		},
		"valued late": {
			[]Moment{{Status: StatusConfirmed, Amount: 100, At: 20}, {Status: StatusConfirmed, Amount: 100, Refunded: 50, At: 30}, at(40, StatusConfirmed, 50)},
			[]string{"payment 10 100 100", "refund 30 -50 -50"},
		},
		"valued otherwise": {
			[]Moment{{Status: StatusConfirmed, Amount: 100, USDCents: centsOf(90), At: 20}, at(30, StatusConfirmed, 0)},
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
