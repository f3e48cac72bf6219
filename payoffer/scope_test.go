package payoffer

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

// reload loads sites with the admin API at its address.
func (o *operated) reload(sites string) {
	o.t.Helper()
	caddyfile := strings.Replace(o.caddyfile(sites), "admin off", "admin "+o.address, 1)
	require.NoError(o.t, loadCaddyfile(o.t, caddyfile))
}

// told is what an offer says in each place of the money it took.
type told struct {
	receivedUSD           float64
	references            []string // in its report
	fed                   []string // in its feed
	listed                []string // by the admin API, newest first as in the report
	adminUSD, measuredUSD float64
	states                map[string]string // of its rails
}

// tell asks one offer, by its origin, in all places.
func (o *operated) tell(origin string) (all told) {
	o.t.Helper()
	var report struct {
		ReceivedUSD float64 `json:"receivedUsd"`
		Rails       []struct{ Rail, State string }
		Receipts    []struct{ ID string }
	}
	require.NoError(o.t, json.Unmarshal([]byte(o.get(origin+offer.PathReceived).body), &report))
	all.receivedUSD, all.states = report.ReceivedUSD, make(map[string]string)
	for _, r := range report.Receipts {
		all.references = append(all.references, r.ID)
	}
	for _, r := range report.Rails {
		all.states[r.Rail] = r.State
	}

	var feed struct{ Transitions []struct{ Receipt string } }
	require.NoError(o.t, json.Unmarshal([]byte(o.get(origin+offer.PathReceived+"?after=0").body), &feed))
	for _, transition := range feed.Transitions {
		all.fed = append(all.fed, transition.Receipt)
	}

	id := offer.Host(origin)
	var list struct{ Receipts []operator.Receipt }
	require.NoError(o.t, json.Unmarshal([]byte(o.ask(http.MethodGet, operator.PathReceipts+"?offer="+id, "").body), &list))
	for _, r := range list.Receipts {
		all.listed = append(all.listed, r.ID)
	}
	var admin struct {
		Offers []struct {
			ID     string
			Report struct{ ReceivedUSD float64 }
		}
	}
	require.NoError(o.t, json.Unmarshal([]byte(o.ask(http.MethodGet, operator.PathReceived, "").body), &admin))
	for _, one := range admin.Offers {
		if one.ID == id {
			all.adminUSD = one.Report.ReceivedUSD
		}
	}
	all.measuredUSD = measured(o.t, "caddy_pay_offer_receipts_usd", id)
	return all
}

// measured is the sum of a gauge over one offer.
func measured(t *testing.T, name, offerID string) (sum float64) {
	t.Helper()
	for _, family := range gathered(t) {
		for _, m := range family.GetMetric() {
			mine := false
			for _, label := range m.GetLabel() {
				mine = mine || label.GetName() == "offer" && label.GetValue() == offerID
			}
			if mine && family.GetName() == name {
				sum += m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// Two offers on one ledger, even with a reference that both use, each tell of
// their own money alone wherever they are asked.
func TestOffersOnOneLedgerNeverSeeEachOthersMoney(t *testing.T) {
	o := newOperated(t, books+secondBooks)
	enter := func(origin, reference, amount string) {
		o.enter(`{"action":"enter","offer":"` + offer.Host(origin) + `","rail":"transfer","reference":"` + reference + `","sure":true,"amount":` + amount + `}`)
	}
	enter(o.service, "INV-1", "42")
	enter(o.other, "INV-1", "1")
	enter(o.other, "INV-2", "5")

	first, second := o.tell(o.service), o.tell(o.other)

	require.InDelta(t, 42, first.receivedUSD, 0)
	require.InDelta(t, 6, second.receivedUSD, 0)
	for _, c := range []struct {
		all  told
		want []string // newest first
	}{{first, []string{"INV-1"}}, {second, []string{"INV-2", "INV-1"}}} {
		require.Equal(t, c.want, c.all.references)
		require.Equal(t, c.want, c.all.listed)
		slices.Reverse(c.all.fed)
		require.Equal(t, c.want, c.all.fed)
		require.InDelta(t, c.all.receivedUSD, c.all.adminUSD, 0)
		require.InDelta(t, c.all.receivedUSD, c.all.measuredUSD, 0)
	}

	got := o.ask(http.MethodPost, operator.PathReceipts,
		`{"action":"reverse","offer":"`+offer.Host(o.service)+`","rail":"transfer","reference":"INV-2","reason":"not theirs"}`)
	require.Equal(t, http.StatusNotFound, got.status, "the other offer's receipt cannot be reversed here")
	require.InDelta(t, 6, o.tell(o.other).receivedUSD, 0)
}

// An id follows base_url unless it is given. Money that this puts out of sight
// is told of.
func TestMoneyOfAnOfferThatIsGoneIsWarnedOf(t *testing.T) {
	o := newOperated(t, secondBooks)
	o.enter(`{"action":"enter","rail":"transfer","reference":"INV-1","amount":42}`)
	require.NotContains(t, o.log(), "offers that are not configured")

	o.reload(strings.Replace(secondBooks, "base_url OTHER", "base_url OTHER\n\t\tid another", 1))

	require.Contains(t, o.log(), "offers that are not configured")
	require.Contains(t, o.log(), `"offers":["`+offer.Host(o.other)+`"]`)
}

// What was received on a rail stays in the books when the rail is taken out of
// the configuration, and goes on when it comes back.
func TestRemovedRailKeepsItsReceipts(t *testing.T) {
	o := newOperated(t, books)
	o.enter(`{"action":"enter","rail":"transfer","reference":"INV-1","amount":42}`)

	o.reload(strings.Replace(books, "\t\tbank_transfer transfer pay@example.com\n", "", 1))

	all := o.tell(o.service)
	require.InDelta(t, 42, all.receivedUSD, 0)
	require.Equal(t, []string{"INV-1"}, all.references)
	require.Equal(t, []string{"INV-1"}, all.fed)
	require.Equal(t, "removed", all.states["transfer"])
	require.InDelta(t, 42, all.measuredUSD, 0)
	require.Equal(t, http.StatusNotFound, o.ask(http.MethodPost, operator.PathReceipts,
		`{"action":"enter","rail":"transfer","reference":"INV-2","amount":42}`).status, "nothing new arrives there")
	o.enter(`{"action":"reverse","rail":"transfer","reference":"INV-1","reason":"recalled"}`)
	require.Zero(t, o.tell(o.service).receivedUSD, "what stands there is corrected all the same")

	o.reload(books)
	o.enter(`{"action":"enter","rail":"transfer","reference":"INV-1","amount":42,"reason":"the recall was refused"}`)
	all = o.tell(o.service)
	require.InDelta(t, 42, all.receivedUSD, 0)
	require.Equal(t, "manual", all.states["transfer"])
	require.Equal(t, []string{"INV-1", "INV-1", "INV-1"}, all.fed)
}
