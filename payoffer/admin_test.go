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
	o.reload(sites)
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
	content := must(io.ReadAll(response.Body))(o.t)
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
	must(svc.Operator.Ledger.Record(t.Context(), nil, ledger.Observation{
		Offer: account.Offer, Account: account.ID, Rail: account.Rail, ExternalID: "eip155:84532:0x01:0",
		Transaction: "0x01", Asset: "USDC", Amount: 42_000_000, USDCents: &cents, State: ledger.StatusConfirmed,
		EvidenceLevel: ledger.LevelChain, Evidence: json.RawMessage(`{}`), Testnet: true,
		OccurredAt: time.Now().Unix(), Cause: "test",
	}))(t)
}

func TestAdminReportMatchesPublicReport(t *testing.T) {
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

// Only strangers are refused.
func TestPrivateTotalsNeedAdminAPI(t *testing.T) {
	o := newOperated(t, strings.Replace(books, "card ", "received private\n\t\tcard ", 1))
	record(t)
	require.Equal(t, http.StatusForbidden, o.get(o.service+offer.PathReceived).status)
	report := o.ask(http.MethodGet, operator.PathReceived, "")
	require.Equal(t, http.StatusOK, report.status)
	require.Contains(t, report.body, `"receivedUsd":42`)
	var page operator.Receipts
	receipts := o.ask(http.MethodGet, operator.PathReceipts, "")
	require.NoError(t, json.Unmarshal([]byte(receipts.body), &page), receipts.body)
	require.Len(t, page.Receipts, 1)
	require.Equal(t, http.StatusOK, o.get(page.Receipts[0].Page).status, "the page of its payer")

	o.reload(strings.Replace(books, "card ", "received public\n\t\tcard ", 1))
	require.Equal(t, http.StatusOK, o.get(o.service+offer.PathReceived).status)
}

func TestReportShowsRefundsAndRedactions(t *testing.T) {
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
	require.NotContains(t, public, "half", "a reason is published nowhere")
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
	refunded := map[string]string{}
	for _, rail := range told.Rails {
		refunded[rail.Rail] = rail.Refunded.AmountUSDDecimal
	}
	require.Equal(t, "2.00", refunded["transfer"])
}

func TestAdminAPIEntryErrors(t *testing.T) {
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
		"other facts":       {post(strings.Replace(strings.Replace(entry, "42", "43", 1), "-8", "-7", 1)), 409, "void it and enter it again"},
		"unknown reference": {post(`{"action":"void","rail":"transfer","reference":"INV-9","reason":"x"}`), 404, "INV-9"},
		"unknown rail":      {post(strings.Replace(entry, "transfer", "cash", 1)), 404, "write one of card, usdc, transfer, or add the option"},
		"no reason":         {post(`{"action":"void","rail":"transfer","reference":"INV-7"}`), 400, "reason is missing"},
		"an unknown member": {post(strings.Replace(entry, "amount", "ammount", 1)), 400, "ammount"},
		"two objects":       {post(entry + entry), 400, "after top-level value"},
		"a member twice":    {post(strings.Replace(entry, `"rail"`, `"rail":"card","rail"`, 1)), 400, `duplicate object member name "rail"`},
		"an amount twice":   {post(strings.Replace(entry, `"amount"`, `"amount":1,"amount"`, 1)), 400, `duplicate object member name "amount"`},
		"another case":      {post(strings.Replace(entry, `"rail"`, `"Rail":"card","rail"`, 1)), 400, "Rail"},
		"no JSON":           {post("rail=transfer"), 400, "does not fit this endpoint"},
		"a giant body":      {post(`{"reason":"` + strings.Repeat("x", maxAdminBody) + `"}`), 413, "larger"},
		"a form":            {post(entry, "Content-Type", "text/plain"), 415, "application/json"},
		"another offer":     {post(strings.Replace(entry, `"rail"`, `"offer":"x","rail"`, 1)), 404, offer.Host(o.service)},
		"a foreign page":    {post(entry, "Origin", "https://evil.example"), 403, "origin"},
		"another method":    {o.ask(http.MethodDelete, operator.PathReceipts, entry), 405, "GET or POST"},
		"a posted report":   {o.ask(http.MethodPost, operator.PathReceived, entry), 405, "GET"},
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

func TestAdminAPIReceiptPaging(t *testing.T) {
	o := newOperated(t, books)
	for n := range 5 {
		o.enter(`{"action":"enter","rail":"transfer","reference":"INV-` + strconv.Itoa(n) + `","amount":42}`)
	}
	first := o.ask(http.MethodGet, operator.PathReceipts+"?limit=2", "").body
	require.Contains(t, first, `"next":4`)
	require.Contains(t, o.ask(http.MethodGet, operator.PathReceipts+"?limit=2&before=4", "").body, `"id":"INV-2"`)
	for _, query := range []string{"limit=0", "limit=101", "limit=x", "before=0", "before=x", "befor=1", "after=1"} {
		require.Equal(t, http.StatusBadRequest, o.ask(http.MethodGet, operator.PathReceipts+"?"+query, "").status, query)
	}
}

func TestAdminAPINeedsOfferIfSeveral(t *testing.T) {
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

const (
	testPayer       = "0x1111111111111111111111111111111111111111"
	testTransaction = "0xABababababababababababababababababababababababababababababababab"
)

// openPayment puts an x402 payment of unknown outcome into the running ledger.
func openPayment(t *testing.T, nonce string, change func(*ledger.Intent)) ledger.Intent {
	t.Helper()
	svc := onChain()
	account := svc.Accounts()[1] // that of usdc
	cents := int64(4200)
	i := ledger.Intent{
		IntentKey: ledger.IntentKey{
			Network: "eip155:84532", Asset: svc.Offer.USDC()[0].Network.USDC, From: testPayer, Nonce: nonce,
		},
		Offer: account.Offer, Account: account.ID, Amount: 42_000_000, USDCents: &cents, Fingerprint: nonce, Version: 2,
		Payload: []byte(`{}`), Requirement: []byte(`{}`), ValidBefore: time.Now().Add(-time.Hour).Unix(),
		Progress: ledger.Progress{Facilitator: "gone.example", Reason: "timeout"},
	}
	change(&i)
	require.NoError(t, svc.Operator.Ledger.InsertIntent(t.Context(), i))
	return i
}

func storedIntent(t *testing.T, key ledger.IntentKey) ledger.Intent {
	t.Helper()
	i, found, err := onChain().Operator.Ledger.Intent(t.Context(), key)
	require.NoError(t, err)
	require.True(t, found)
	return i
}

func unchanged(*ledger.Intent) {}

func TestAdminAPIListsOpenPayments(t *testing.T) {
	o := newOperated(t, books)
	openPayment(t, "0x01", unchanged)
	openPayment(t, "0x02", func(i *ledger.Intent) {
		i.From = "0x2222222222222222222222222222222222222222"
		i.ValidBefore = time.Now().Add(time.Hour).Unix()
	})
	type list struct {
		Intents []operator.Intent
		Next    *int64
	}
	var first, second list
	require.NoError(t, json.Unmarshal([]byte(o.ask(http.MethodGet, operator.PathIntents+"?limit=1", "").body), &first))
	require.Len(t, first.Intents, 1)
	row := first.Intents[0]
	require.Equal(t, testPayer, row.From)
	require.Contains(t, row.Waiting, "operator")
	require.NotNil(t, first.Next)
	require.NoError(t, json.Unmarshal([]byte(o.ask(http.MethodGet, operator.PathIntents+"?after=1", "").body), &second))
	require.Len(t, second.Intents, 1)
	require.Contains(t, second.Intents[0].Waiting, "can be settled until then")
	require.Nil(t, second.Next)
}

func TestOperatorResolvesOpenPayment(t *testing.T) {
	o := newOperated(t, books)
	body := must(json.Marshal(operator.IntentOutcome{
		Network: "base-sepolia", From: testPayer, Nonce: "0x02", Outcome: "paid",
		Transaction: testTransaction, Reason: "looked up at the explorer",
	}))(t)
	paid := openPayment(t, "0x02", unchanged)
	got := o.ask(http.MethodPost, operator.PathIntents, string(body))
	require.Equal(t, http.StatusOK, got.status, got.body)
	stored := storedIntent(t, paid.IntentKey)
	require.Equal(t, ledger.IntentSettled, stored.State)
	require.Equal(t, ledger.EvidenceFacilitator, stored.Evidence, "a claim, counted in no sum")
	require.Equal(t, strings.ToLower(testTransaction), stored.Transaction)
	require.Contains(t, o.ask(http.MethodGet, operator.PathReceived, "").body, `"receivedUsd":0`)
	require.Contains(t, o.log(), "looked up at the explorer")
}

func TestAdminAPIResolutionErrors(t *testing.T) {
	o := newOperated(t, secondBooks+books)
	valid := openPayment(t, "0x01", func(i *ledger.Intent) { i.ValidBefore = time.Now().Unix() })
	const unpaid = `{"network":"base-sepolia","from":"` + testPayer + `","nonce":"0x01","outcome":"not_paid","reason":"x"}`
	for name, c := range map[string]struct {
		body   string
		status int
		want   string
	}{
		"while it can be settled": {unpaid, 409, "can be settled until then"},
		"of an unknown payment":   {strings.Replace(unpaid, "0x01", "0x09", 1), 404, "no payment of a running offer"},
		"with an unknown member":  {strings.Replace(unpaid, "reason", "raeson", 1), 400, "raeson"},
	} {
		t.Run(name, func(t *testing.T) {
			got := o.ask(http.MethodPost, operator.PathIntents, c.body)
			require.Equal(t, c.status, got.status, got.body)
			require.Contains(t, got.body, c.want)
		})
	}
	require.Equal(t, ledger.IntentSettling, storedIntent(t, valid.IntentKey).State)
}

// The command compares the settings of its configuration with those of the server.
func TestAdminAPIReportsDiagnostics(t *testing.T) {
	o := newOperated(t, books+secondBooks)
	got := o.ask(http.MethodGet, operator.PathDiagnostics, "")
	require.Equal(t, http.StatusOK, got.status, got.body)
	var reply struct{ Offers []operator.Diagnostics }
	require.NoError(t, json.Unmarshal([]byte(got.body), &reply))
	require.Len(t, reply.Offers, 2)
	settings := make(map[string]string)
	for _, d := range reply.Offers {
		require.True(t, d.Ledger.Writable)
		require.NotEmpty(t, d.Keys)
		settings[d.ID] = d.Settings
	}
	require.Contains(t, settings, offer.Host(o.service))
	for _, checked := range activeApp().Checked() {
		require.Equal(t, checked.Key, settings[checked.Offer.ID])
	}
	require.Equal(t, http.StatusMethodNotAllowed, o.ask(http.MethodPost, operator.PathDiagnostics, "{}").status)
}

func TestOfferLinksAnswer(t *testing.T) {
	o := newOperated(t, books)
	var links []string
	for _, checked := range activeApp().Checked() {
		links = append(links, checked.Links...)
	}
	require.Greater(t, len(links), 30)
	require.Contains(t, links, o.service+"/v1/pay/usdc.uri")
	for _, link := range links {
		require.NotContains(t, link, "{")
		status := o.get(link).status
		require.True(t, status < 400 || status == http.StatusPaymentRequired, "%s answers %d", link, status)
	}
}
