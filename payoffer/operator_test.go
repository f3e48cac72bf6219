package payoffer

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	dto "github.com/prometheus/client_model/go"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// pay sends a payment payload and returns the status of the answer.
func (i *instance) pay(payload string) int {
	i.t.Helper()
	request := must(http.NewRequestWithContext(i.t.Context(), http.MethodPost, i.service+offer.PathSponsor, nil))(i.t)
	request.Header.Set(x402.HeaderSignature, base64.StdEncoding.EncodeToString([]byte(payload)))
	response := must(i.client.Do(request))(i.t)
	defer response.Body.Close()
	return response.StatusCode
}

// gathered are the metrics of the configuration that runs.
func gathered(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	ctx := caddy.ActiveContext()
	return must(ctx.GetMetricsRegistry().Gather())(t)
}

// metric is the sum of a metric.
func metric(t *testing.T, name string) float64 {
	t.Helper()
	families := gathered(t)
	value := 0.0
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name {
				value += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return value
}

// Collectors outlive configurations, each of which has a registry of its own.
func TestAttemptMetricSurvivesReload(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	const counter = "caddy_pay_offer_payment_attempts_total"
	before := metric(t, counter)
	require.Equal(t, http.StatusBadRequest, i.pay("{"))
	require.NoError(t, i.load(smallest))

	require.InDelta(t, before+1, metric(t, counter), 0)
	require.Zero(t, metric(t, "caddy_pay_offer_open_intents"))
}

// reload loads sites with the admin API at its address.
func (o *operated) reload(sites string) {
	o.t.Helper()
	caddyfile := strings.Replace(o.caddyfile(sites), "admin off", "admin "+o.address, 1)
	require.NoError(o.t, loadCaddyfile(o.t, caddyfile))
	o.client.CloseIdleConnections() // the server that ends may still answer on them
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
func TestOffersOnOneLedgerAreSeparate(t *testing.T) {
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
		`{"action":"void","offer":"`+offer.Host(o.service)+`","rail":"transfer","reference":"INV-2","reason":"not theirs"}`)
	require.Equal(t, http.StatusNotFound, got.status, "the other offer's receipt cannot be reversed here")
	require.InDelta(t, 6, o.tell(o.other).receivedUSD, 0)
}

// An id follows base_url unless it is given. Money that this puts out of sight
// is told of.
func TestWarningForMoneyOfRemovedOffer(t *testing.T) {
	o := newOperated(t, secondBooks)
	o.enter(`{"action":"enter","rail":"transfer","reference":"INV-1","amount":42}`)
	require.NotContains(t, o.log(), "offers that are not configured")

	o.reload(strings.Replace(secondBooks, "base_url OTHER", "base_url OTHER\n\t\tid another", 1))

	require.Eventually(t, func() bool { return strings.Contains(o.log(), "offers that are not configured") }, time.Minute, 10*time.Millisecond,
		"said after the offers are open")
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
	o.enter(`{"action":"void","rail":"transfer","reference":"INV-1","reason":"recalled"}`)
	require.Zero(t, o.tell(o.service).receivedUSD, "what stands there is corrected all the same")

	o.reload(books)
	o.enter(`{"action":"enter","rail":"transfer","reference":"INV-1","amount":42,"reason":"the recall was refused"}`)
	all = o.tell(o.service)
	require.InDelta(t, 42, all.receivedUSD, 0)
	require.Equal(t, "manual", all.states["transfer"])
	require.Equal(t, []string{"INV-1", "INV-1", "INV-1"}, all.fed)
}

// The sum of what counts in the CSV is what everyone reads in the report.
func TestCommandReceivedCSVMatchesReport(t *testing.T) {
	o := newOperated(t, books)
	for _, arguments := range []string{
		"--reference INV-7 --amount 42.50 --sure --date 2026-11-20", "--reference INV-8 --amount 5 --sure --date 2026-11-20",
		"--reference INV-8 --void --reason recalled", "--reference INV-9 --amount 10 --sure --date 2026-11-20",
		"--reference INV-9 --void --reason fee", "--reference INV-9 --amount 9 --sure --reason fee-kept",
	} {
		must(o.payOffer(append([]string{"record", "--rail", "transfer"}, strings.Fields(arguments)...)...))(t)
	}

	out := must(o.payOffer("received", "--csv", "--from", "2020-01-01"))(t)
	lines, sums, found := strings.Cut(out, "7 lines, ")
	require.True(t, found)
	rows := must(csv.NewReader(strings.NewReader(lines)).ReadAll())(t)
	var got []string
	var cents int64
	for _, row := range rows[1:] {
		got = append(got, strings.Join([]string{row[3], row[4], row[8], row[16]}, " "))
		if row[16] == "yes" {
			usd, cut, ok := offer.ParseDecimal(strings.TrimPrefix(row[10], "-"), 2)
			require.True(t, ok && !cut)
			if strings.HasPrefix(row[10], "-") {
				usd = -usd
			}
			cents += usd
		}
	}
	require.Equal(t, []string{
		"payment transfer 42.50 yes", "payment transfer 5 yes", "reversal transfer -5 yes",
		"payment transfer 10 yes", "reversal transfer -10 yes", "correction transfer -1 yes", "reversal_undone transfer 10 yes",
	}, got)
	require.Contains(t, sums, "51.50 USD counted\nall movements, of whatever day, add up to the ledger's sums: 51.50 USD received, 51.50 of it from others")
	var report struct{ ReceivedUSDDecimal string }
	require.NoError(t, json.Unmarshal([]byte(o.get(o.service+offer.PathReceived).body), &report))
	require.Equal(t, report.ReceivedUSDDecimal, offer.USD(cents).Decimal())

	answer := o.ask(http.MethodGet, operator.PathMovements, "")
	require.Equal(t, "application/x-ndjson", answer.header.Get("Content-Type"))
	require.Equal(t, http.StatusNotFound, o.ask(http.MethodGet, operator.PathMovements+"?offer=x", "").status)
}

// The command is asked of the server that runs, over a reload of its configuration
// that changes the offer, and stopped.
func TestCommandWatchSurvivesReload(t *testing.T) {
	o := newOperated(t, books)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	registered := caddycmd.Commands()["pay-offer"]
	command := &cobra.Command{Use: registered.Name, SilenceUsage: true, SilenceErrors: true}
	registered.CobraFunc(command)
	out, printed := io.Pipe()
	aside, told := io.Pipe()
	command.SetOut(printed)
	command.SetErr(told)
	command.SetArgs([]string{"watch", "--json", "--address", o.address})
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()
	notices, lines := bufio.NewScanner(aside), bufio.NewScanner(out)
	require.True(t, notices.Scan())
	require.Equal(t, "watching "+strings.TrimPrefix(o.service, "http://")+" after 0; stop with Ctrl-C", notices.Text())
	go io.Copy(io.Discard, aside) //nolint:errcheck // what it says of the reload, if anything
	defer told.Close()

	next := func() (c operator.Change) {
		require.True(t, lines.Scan())
		require.NoError(t, json.Unmarshal(lines.Bytes(), &c))
		return c
	}
	o.enter(`{"action":"enter","rail":"transfer","reference":"INV-1","amount":42,"sure":true,"date":"2026-11-20"}`)
	first := next()
	require.Equal(t, "INV-1 confirmed 42 USD", first.Receipt+" "+first.Status+" "+first.Paid())

	o.reload(strings.Replace(books, "checkout.example", "other.example", 1))
	o.enter(`{"action":"void","rail":"transfer","reference":"INV-1","reason":"recalled"}`)
	second := next()
	require.Equal(t, "INV-1 reversed recalled", second.Receipt+" "+second.Status+" "+second.Reason)
	require.Equal(t, "confirmed", *second.From)

	stop()
	require.NoError(t, <-ended)
	again := o.ask(http.MethodGet, operator.PathFeed+"?after="+url.QueryEscape(first.Cursor), "")
	require.Contains(t, again.body, `"cursor":"`+second.Cursor+`"`)
}

func TestAdminAPIFeedErrors(t *testing.T) {
	o := newOperated(t, books)
	for query, want := range map[string]struct {
		status int
		says   string
	}{
		"?since=1":                   {http.StatusBadRequest, "use offer and after"},
		"?after=x":                   {http.StatusBadRequest, "is not a cursor"},
		"?after=99.00c0ffee00c0ffee": {http.StatusConflict, "an older backup was restored"},
		"?offer=nothing":             {http.StatusNotFound, "no offer has the id"},
	} {
		got := o.ask(http.MethodGet, operator.PathFeed+query, "")
		require.Equal(t, want.status, got.status, query)
		require.Contains(t, got.body, want.says)
	}
	require.Equal(t, http.StatusMethodNotAllowed, o.ask(http.MethodPost, operator.PathFeed, "{}").status)
}
