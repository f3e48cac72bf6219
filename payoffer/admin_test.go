package payoffer

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// books is a site whose operator keeps books of bank transfers.
const books = `SERVICE {
	pay_offer {
		base_url SERVICE
		card https://checkout.example/pay
		usdc base-sepolia 0x52908400098527886E0F7030069857D2E4169EE7 {
			facilitator http://127.0.0.1:9
			rpc off
		}
		bank_transfer transfer pay@example.com
	}
}
`

// secondBooks is another offer on the same ledger.
const secondBooks = `OTHER {
	pay_offer {
		base_url OTHER
		card https://checkout.example/other
		bank_transfer transfer pay@example.com
	}
}
`

// operated is an instance whose admin API listens at an address.
type operated struct {
	*instance
	address string
}

func newOperated(t *testing.T, sites string) *operated {
	t.Helper()
	o := &operated{newInstance(t), strings.TrimPrefix(freeOrigin(t), "http://")}
	config, err := adapt(t, strings.Replace(o.caddyfile(sites), "admin off", "admin "+o.address, 1))
	require.NoError(t, err)
	require.NoError(t, caddy.Load([]byte(config), true))
	return o
}

// ask sends a request to the admin API. It reads again when a connection is reset: a reload
// replaces the listener.
func (o *operated) ask(method, path, body string, header ...string) answer {
	o.t.Helper()
	request, err := http.NewRequestWithContext(o.t.Context(), method, "http://"+o.address+path, strings.NewReader(body))
	require.NoError(o.t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Close = true // a reload replaces the server of a connection that is kept
	for n := 0; n < len(header); n += 2 {
		request.Header.Set(header[n], header[n+1])
	}
	response, err := o.client.Do(request)
	for n := 0; err != nil && method == http.MethodGet && n < 100; n++ {
		request.Body, _ = request.GetBody()
		response, err = o.client.Do(request)
	}
	require.NoError(o.t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(o.t, err)
	return answer{response.StatusCode, response.Header, string(content)}
}

// enter posts an entry and returns the receipt.
func (o *operated) enter(body string) (row operator.Receipt) {
	o.t.Helper()
	got := o.ask(http.MethodPost, operator.PathReceipts, body)
	require.Equal(o.t, http.StatusOK, got.status, got.body)
	require.NoError(o.t, json.Unmarshal([]byte(got.body), &row))
	return row
}

// onChain is the running service of the offer that has a usdc rail.
func onChain() *service.Service {
	services := activeApp().running()
	return services[slices.IndexFunc(services, func(svc *service.Service) bool { return len(svc.Offer.USDC()) > 0 })]
}

// record puts one confirmed Transfer of 42 USDC into the running ledger.
func record(t *testing.T) {
	t.Helper()
	recordIn(t, onChain())
}

func recordIn(t *testing.T, svc *service.Service) {
	t.Helper()
	account := svc.Accounts()[1] // that of usdc
	cents := int64(4200)
	_, err := svc.Operator.Ledger.Record(t.Context(), nil, ledger.Observation{
		Offer: account.Offer, Account: account.ID, Rail: account.Rail, ExternalID: "eip155:84532:0x01:0",
		Transaction: "0x01", Asset: "USDC", Amount: 42_000_000, USDCents: &cents, State: ledger.StatusConfirmed,
		EvidenceLevel: ledger.LevelChain, Evidence: json.RawMessage(`{}`), Testnet: true,
		OccurredAt: time.Now().Unix(), Cause: "test",
	})
	require.NoError(t, err)
}

func TestAdminAPIReportsWhatEveryoneReads(t *testing.T) {
	o := newOperated(t, books+secondBooks)
	record(t)

	got := o.ask(http.MethodGet, operator.PathReceived, "")

	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, "application/json", got.header.Get("Content-Type"))
	var body struct {
		Offers []struct {
			ID      string
			BaseURL string `json:"base_url"`
			Report  json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal([]byte(got.body), &body))
	require.Len(t, body.Offers, 2)
	if body.Offers[0].BaseURL != o.service {
		slices.Reverse(body.Offers) // they are sorted by their ids
	}
	require.Equal(t, offer.Host(o.service), body.Offers[0].ID)
	require.Equal(t, o.service, body.Offers[0].BaseURL)
	var told, public map[string]any
	require.NoError(t, json.Unmarshal(body.Offers[0].Report, &told))
	require.NoError(t, json.Unmarshal([]byte(o.get(o.service+offer.PathReceived).body), &public))
	for _, name := range []string{"receipts", "next", "observedAt"} {
		delete(public, name)
	}
	delete(told, "observedAt")
	require.Equal(t, public, told)
	require.InDelta(t, 42, told["goalUsd"], 0)
}

func TestAdminAPIEntersAndChangesReceipts(t *testing.T) {
	o := newOperated(t, books)
	row := o.enter(`{"action":"enter","rail":"transfer","reference":"INV-7","amount":"42.50","sure":true,"date":"2026-11-20","reason":"statement"}`)
	require.Equal(t, "confirmed", row.Status)
	require.Equal(t, "manual", row.Evidence)
	require.Equal(t, "42.50 USD", row.Value())
	require.Equal(t, "2026-11-20T00:00:00Z", row.OccurredAt)
	require.Equal(t, "operator/"+offer.Host(o.service)+"/transfer", row.Account)

	row = o.enter(`{"action":"reverse","rail":"transfer","reference":"INV-7","reason":"recalled"}`)
	require.Equal(t, "reversed", row.Status)
	row = o.enter(`{"action":"enter","rail":"transfer","reference":"INV-7","amount":40,"reason":"the bank kept a fee"}`)
	require.Equal(t, "40 USD", row.Value())
	require.Equal(t, int64(3), row.Version)

	var list struct{ Receipts []operator.Receipt }
	require.NoError(t, json.Unmarshal([]byte(o.ask(http.MethodGet, operator.PathReceipts, "").body), &list))
	require.Len(t, list.Receipts, 1)
	var happened []string
	for _, change := range list.Receipts[0].History {
		happened = append(happened, change.Status+" "+change.AmountAtomic+" "+change.Cause+": "+change.Reason)
	}
	require.Equal(t, []string{
		"confirmed 4250 entered: statement", "reversed 4250 reversed_by_operator: recalled",
		"confirmed 4000 entered: the bank kept a fee",
	}, happened)

	public := o.get(o.service + offer.PathReceived).body
	require.Contains(t, public, "INV-7")
	require.Contains(t, public, `"receivedUsd":40,`)
	require.NotContains(t, public, "fee", "a reason is published nowhere")
}

func TestTheReportFollowsRefundsAndRedactions(t *testing.T) {
	o := newOperated(t, books)
	record(t) // 42 USDC
	o.enter(`{"action":"enter","rail":"transfer","reference":"Jane Doe","amount":42}`)
	require.Contains(t, o.get(o.service+offer.PathReceived).body, "Jane Doe")

	const hash = "0xABababababababababababababababababababababababababababababababab"
	row := o.enter(`{"action":"refund","rail":"usdc","reference":"eip155:84532:0x01:0","amount":"10.5","transaction":"` + hash + `","reason":"half"}`)
	require.Equal(t, "42 USDC, 10.5 USDC", row.Paid()+", "+row.Refunded())
	row = o.enter(`{"action":"refund","rail":"transfer","reference":"Jane Doe","amount":2,"reason":"fee"}`)
	require.Equal(t, "2 USD", row.Refunded())
	row = o.enter(`{"action":"redact","rail":"transfer","reference":"Jane Doe","reason":"a name"}`)

	public := o.get(o.service + offer.PathReceived).body
	require.Contains(t, public, row.ID)
	feed := o.get(o.service + offer.PathReceived + "?after=0").body
	require.Contains(t, feed, `"cause": "redacted"`)
	for _, answer := range []string{public, feed, o.ask(http.MethodGet, operator.PathReceipts, "").body} {
		require.NotContains(t, answer, "Jane")
	}
	var told struct {
		Rails []struct {
			Rail     string
			Refunded struct{ AmountUSDDecimal string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(public), &told))
	require.Equal(t, "transfer", told.Rails[2].Rail)
	require.Equal(t, "2.00", told.Rails[2].Refunded.AmountUSDDecimal)
}

func TestAdminAPIRefusesEntriesWithASentence(t *testing.T) {
	o := newOperated(t, books)
	o.enter(`{"action":"enter","rail":"transfer","reference":"INV-7","amount":42}`)
	post := func(body string, header ...string) answer {
		return o.ask(http.MethodPost, operator.PathReceipts, body, header...)
	}
	const entry = `{"action":"enter","rail":"transfer","reference":"INV-8","amount":42}`
	for name, c := range map[string]struct {
		got    answer
		status int
		want   string
	}{
		"other facts":          {post(strings.Replace(strings.Replace(entry, "42", "43", 1), "-8", "-7", 1)), 409, "reverse it and enter it again"},
		"unknown reference":    {post(`{"action":"reverse","rail":"transfer","reference":"INV-9","reason":"x"}`), 404, "INV-9"},
		"unknown rail":         {post(strings.Replace(entry, "transfer", "cash", 1)), 404, "valid names: card, usdc, transfer"},
		"a chain":              {post(strings.Replace(entry, "transfer", "usdc", 1)), 409, "are read from the chain"},
		"no reason":            {post(`{"action":"reverse","rail":"transfer","reference":"INV-7"}`), 400, "reason is missing"},
		"no action":            {post(`{"rail":"transfer","reference":"INV-8","amount":42}`), 400, "enter, reverse, restore, refund, value, own, redact"},
		"a reversal's amount":  {post(`{"action":"reverse","rail":"transfer","reference":"INV-7","amount":1,"reason":"x"}`), 400, "takes no amount; leave it out"},
		"a crooked amount":     {post(strings.Replace(entry, "42", "4.2e1", 1)), 400, "42.50"},
		"a crooked date":       {post(strings.Replace(entry, `"amount"`, `"date":"20.11.","amount"`, 1)), 400, "2026-11-20"},
		"an unknown member":    {post(strings.Replace(entry, "amount", "ammount", 1)), 400, "ammount"},
		"two objects":          {post(entry + entry), 400, "after top-level value"},
		"a member twice":       {post(strings.Replace(entry, `"rail"`, `"rail":"card","rail"`, 1)), 400, `duplicate object member name "rail"`},
		"an amount twice":      {post(strings.Replace(entry, `"amount"`, `"amount":1,"amount"`, 1)), 400, `duplicate object member name "amount"`},
		"another case":         {post(strings.Replace(entry, `"rail"`, `"Rail":"card","rail"`, 1)), 400, "Rail"},
		"no JSON":              {post("rail=transfer"), 400, "does not fit this endpoint"},
		"a refund of too much": {post(`{"action":"refund","rail":"transfer","reference":"INV-7","amount":42.01,"reason":"x"}`), 409, "only 42 USD of"},
		"a person's address":   {post(strings.Replace(entry, "INV-8", "jane@example.org", 1)), 400, "looks like an e-mail address"},
		"a giant body":         {post(`{"reason":"` + strings.Repeat("x", maxAdminBody) + `"}`), 413, "larger"},
		"a form":               {post(entry, "Content-Type", "text/plain"), 415, "application/json"},
		"another offer":        {post(strings.Replace(entry, `"rail"`, `"offer":"x","rail"`, 1)), 404, offer.Host(o.service)},
		"a foreign page":       {post(entry, "Origin", "https://evil.example"), 403, "origin"},
		"another method":       {o.ask(http.MethodDelete, operator.PathReceipts, entry), 405, "GET or POST"},
		"a posted report":      {o.ask(http.MethodPost, operator.PathReceived, entry), 405, "GET"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.status, c.got.status, c.got.body)
			var body struct{ Error string }
			require.NoError(t, json.Unmarshal([]byte(c.got.body), &body))
			require.Contains(t, body.Error, c.want)
		})
	}
	require.NotContains(t, o.ask(http.MethodGet, operator.PathReceipts, "").body, "INV-8")
}

func TestAdminAPIListsReceiptsPageByPage(t *testing.T) {
	o := newOperated(t, books)
	for n := range 5 {
		o.enter(`{"action":"enter","rail":"transfer","reference":"INV-` + strconv.Itoa(n) + `","amount":42}`)
	}
	type list struct {
		Receipts []operator.Receipt
		Next     *int64
	}
	var seen []string
	for path := operator.PathReceipts + "?limit=2"; path != ""; {
		var page list
		got := o.ask(http.MethodGet, path, "")
		require.NoError(t, json.Unmarshal([]byte(got.body), &page), got.body)
		for _, r := range page.Receipts {
			seen = append(seen, r.ID)
		}
		if path = ""; page.Next != nil {
			path = operator.PathReceipts + "?limit=2&before=" + strconv.FormatInt(*page.Next, 10)
		}
	}
	require.Equal(t, []string{"INV-4", "INV-3", "INV-2", "INV-1", "INV-0"}, seen)
	for _, query := range []string{"limit=0", "limit=101", "limit=x", "before=0", "before=x", "befor=1", "after=1"} {
		require.Equal(t, http.StatusBadRequest, o.ask(http.MethodGet, operator.PathReceipts+"?"+query, "").status, query)
	}
}

func TestAdminAPIAsksForTheOfferWhereThereAreSeveral(t *testing.T) {
	o := newOperated(t, books+secondBooks)
	const entry = `{"action":"enter","rail":"transfer","reference":"INV-7","amount":42}`
	got := o.ask(http.MethodPost, operator.PathReceipts, entry)
	require.Equal(t, http.StatusBadRequest, got.status)
	require.Contains(t, got.body, offer.Host(o.other))

	row := o.enter(strings.Replace(entry, `"rail"`, `"offer":"`+offer.Host(o.other)+`","rail"`, 1))
	require.Equal(t, offer.Host(o.other), row.Offer)
	require.Contains(t, o.ask(http.MethodGet, operator.PathReceipts+"?offer="+offer.Host(o.other), "").body, "INV-7")
	require.NotContains(t, o.ask(http.MethodGet, operator.PathReceipts+"?offer="+offer.Host(o.service), "").body, "INV-7")
	require.NotContains(t, o.get(o.service+offer.PathReceived).body, "INV-7")
}
