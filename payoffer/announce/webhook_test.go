package announce

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// A receiver that knows one of the secrets finds its signature among those of the
// header, which are apart by a space (Standard Webhooks 1.0.0).
func TestWebhookHeaders(t *testing.T) {
	d, receiver := newFixture(t), payoffertest.NewReceiver(t)
	const next = "correct horse battery staple"
	for n, secrets := range [][]string{nil, {testSecret}, {testSecret, ""}, {"", testSecret}, {testSecret, next}} {
		hook := Webhook{URL: receiver.URL() + fmt.Sprint(n), Secrets: secrets}
		a := d.configured(Config{Endpoints: []Endpoint{hook}, Transport: receiver.Transport()})
		d.pay()
		a.rounds(t.Context())
		require.Len(t, taken(t, receiver), n+1)
		got := receiver.Requests()[n]
		require.Equal(t, http.MethodPost, got.Method)
		require.Equal(t, "application/json", got.Header.Get("Content-Type"))
		require.Equal(t, fmt.Sprintf("card:pi_%d:1", n+1), payoffertest.Untagged(t, got.Header.Get("webhook-id")))
		require.Equal(t, fmt.Sprint(d.clock.Now().Unix()), got.Header.Get("webhook-timestamp"))
		var want []string
		for _, secret := range secrets {
			if key, err := parseSecret(secret); key != nil {
				require.NoError(t, err)
				want = append(want, sign(key, got.Header.Get("webhook-id"), d.clock.Now().Unix(), got.Body))
			}
		}
		require.Equal(t, strings.Join(want, " "), got.Header.Get("webhook-signature"))
	}
}

type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

func TestWebhookResponseSizeLimit(t *testing.T) {
	body := new(endless)
	transport := roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(body)}, nil
	})
	hook, err := Webhook{URL: "https://a.example/hook"}.receiver(&Config{Transport: transport, Now: time.Now})
	require.NoError(t, err)
	require.Equal(t, failure{}, hook.deliver(t.Context(), newEvent(&Config{}, transition(), false)))
	require.LessOrEqual(t, body.read, 16<<10)
}

// The position in the ledger is found again by this name, also by later
// versions: sha256sum of the URL, its first half.
func TestEndpointNameHidesURL(t *testing.T) {
	a, err := New(Config{Endpoints: []Endpoint{Webhook{URL: "https://a.example/hook?key=1"}}})
	require.NoError(t, err)
	require.Equal(t, "webhook:43ad9b168a74a19bd49f52ed7b236572", a.subscribers[0].name)
}

// The vector of the Standard Webhooks project's own tests.
func TestStandardWebhooksSignature(t *testing.T) {
	key := must(parseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))(t)
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
		sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, []byte(`{"test": 2432232314}`)))
}

func TestWebhookSecretForms(t *testing.T) {
	for _, size := range []int{24, 32, 64} {
		key := must(parseSecret("whsec_" + base64.StdEncoding.EncodeToString(make([]byte, size))))(t)
		require.Len(t, key, size)
	}
	key := must(parseSecret("correct horse battery staple"))(t)
	require.Equal(t, "correct horse battery staple", string(key))
}

func TestWebhookSecretErrorsHideSecret(t *testing.T) {
	encode := func(size int) string { return base64.StdEncoding.EncodeToString(make([]byte, size)) }
	for name, test := range map[string]struct{ secret, says string }{
		"short text":      {"hunter2-hunter2-hunter2", "23 characters"},
		"short key":       {"whsec_" + encode(23), "has 23 bytes"},
		"long key":        {"whsec_" + encode(65), "has 65 bytes"},
		"nothing encoded": {"whsec_", "has 0 bytes"},
		"no base64":       {"whsec_" + strings.Repeat("!", 40), "not padded standard base64"},
		"no padding":      {"whsec_" + strings.TrimRight(encode(32), "="), "not padded standard base64"},
		"of URLs":         {"whsec_" + strings.Repeat("_-__", 10), "not padded standard base64"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Config{Endpoints: []Endpoint{
				Webhook{URL: "https://a.example/hook"},
				Webhook{URL: "https://b.example/key-in-path", Secrets: []string{testSecret, test.secret}},
			}})
			require.ErrorContains(t, err, test.says)
			require.ErrorContains(t, err, `announce: endpoint 2: host "b.example"`)
			require.ErrorContains(t, err, "openssl rand -base64 32", "what to do")
			require.NotContains(t, err.Error(), "key-in-path")
			if secret := strings.TrimPrefix(test.secret, "whsec_"); secret != "" {
				require.NotContains(t, err.Error(), secret)
			}
		})
	}
}

func FuzzParseSecret(f *testing.F) {
	f.Add("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	f.Add("correct horse battery staple")
	f.Add("whsec_\n")
	f.Fuzz(func(t *testing.T, secret string) {
		key, err := parseSecret(secret)
		if err != nil {
			require.Nil(t, key)
			return
		}
		require.Equal(t, secret == "", key == nil, "what is configured signs")
		require.True(t, key == nil || len(key) >= secretLeast)
	})
}

// tea is an offer with a card checkout, and a goal in cents or 0 for none.
func tea(t *testing.T, goal offer.USD) offer.Offer {
	t.Helper()
	card, err := offer.NewCard("https://checkout.example/pay", nil, 4200)
	require.NoError(t, err)
	o := must(offer.New(offer.Terms{ID: testOffer, Name: "Tea", Goal: goal}, card))(t)
	return *o
}

// back is a card payment of which something went back.
func back(cause string, r ledger.Return) ledger.Observation {
	s := cardObservation("pi_1", ledger.StatusConfirmed)
	r.At, r.Gone = 1_799_999_500, true
	s.Returns, s.Cause = []ledger.Return{r}, cause
	return s
}

// changed is an observation with another amount, asset or mode.
func changed(s ledger.Observation, change func(*ledger.Observation)) ledger.Observation {
	change(&s)
	return s
}

func TestMessageTitleHasAmount(t *testing.T) {
	paid := cardObservation("pi_1", ledger.StatusConfirmed)
	refund := func(amount int64) ledger.Return {
		return ledger.Return{ID: "re_1", Kind: ledger.ReturnRefund, Amount: amount}
	}
	reversal := ledger.Return{ID: "dp_1", Kind: ledger.ReturnReversal}
	of := func(cents int64) ledger.Observation {
		return changed(paid, func(s *ledger.Observation) { s.Amount, s.USDCents = cents, &cents })
	}
	in := func(asset string, amount int64, cents ...int64) ledger.Observation {
		return changed(paid, func(s *ledger.Observation) {
			if s.Asset, s.Amount, s.USDCents = asset, amount, nil; len(cents) > 0 {
				s.USDCents = &cents[0]
			}
		})
	}
	test := changed(paid, func(s *ledger.Observation) { s.Testnet = true })
	for name, c := range map[string]struct {
		goal       offer.USD
		life       []ledger.Observation
		title, sum string // of the last message
		tag        string // empty for none
		priority   int
	}{
		"a payment":               {0, []ledger.Observation{paid}, "$42 received", "$42", "moneybag", 3},
		"with a goal":             {1_000_00, []ledger.Observation{paid}, "$42 received", "$42 of $1,000", "moneybag", 3},
		"cents":                   {50_50, []ledger.Observation{of(9_50)}, "$9.50 received", "$9.50 of $50.50", "moneybag", 3},
		"thousands":               {0, []ledger.Observation{of(1_234_567_00)}, "$1,234,567 received", "$1,234,567", "moneybag", 3},
		"one thousand":            {0, []ledger.Observation{of(1_000_00)}, "$1,000 received", "$1,000", "moneybag", 3},
		"on its way":              {0, []ledger.Observation{cardObservation("pi_1", ledger.StatusSeen)}, "$42 on its way", "$0", "", 3},
		"arrives":                 {0, []ledger.Observation{cardObservation("pi_1", ledger.StatusSeen), paid}, "$42 received", "$42", "moneybag", 3},
		"fails":                   {0, []ledger.Observation{cardObservation("pi_1", ledger.StatusDropped)}, "$42 did not arrive", "$0", "", 3},
		"a test":                  {100_00, []ledger.Observation{test}, "$42 received (test)", "$0 of $100", "test_tube", 3},
		"a test refund":           {0, []ledger.Observation{test, back("webhook", refund(42_00))}, "$42 refunded (test)", "$0", "test_tube", 3},
		"a refund":                {0, []ledger.Observation{paid, back("webhook", refund(42_00))}, "$42 refunded", "$0", "warning", 3},
		"a refund in part":        {1_000_00, []ledger.Observation{paid, back("webhook", refund(10_50))}, "$10.50 of $42 refunded", "$31.50 of $1,000", "warning", 3},
		"a refund that is known":  {0, []ledger.Observation{back("webhook", refund(42_00))}, "$42 refunded", "$0", "warning", 3},
		"a dispute":               {0, []ledger.Observation{paid, back("webhook", reversal)}, "$42 disputed", "$0", "warning", 4},
		"a dispute that is known": {0, []ledger.Observation{back("webhook", reversal)}, "$42 disputed", "$0", "warning", 4},
		"a void":                  {0, []ledger.Observation{paid, back("voided_by_operator", reversal)}, "$42 voided", "$0", "warning", 3},
		"euros":                   {0, []ledger.Observation{in("EUR", 42_00)}, "42 EUR received", "at least $0", "moneybag", 3},
		"euros of a known value":  {0, []ledger.Observation{in("EUR", 39_50, 42_00)}, "39.50 EUR ($42) received", "$42", "moneybag", 3},
		"yen":                     {0, []ledger.Observation{in("JPY", 6300, 42_00)}, "6300 JPY ($42) received", "$42", "moneybag", 3},
		"bitcoin":                 {0, []ledger.Observation{in("BTC", 42_000, 42_00)}, "0.00042 BTC ($42) received", "$42", "moneybag", 3},
		"USDC":                    {0, []ledger.Observation{in("USDC", 42_500_000, 42_50)}, "42.5 USDC ($42.50) received", "$42.50", "moneybag", 3},
		"a currency with a line":  {0, []ledger.Observation{in("US\r\nTotal: $9", 42_00)}, "42 US Total: $9 received", "at least $0", "moneybag", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, topic, post := newFixture(t), payoffertest.NewNtfy(t), payoffertest.NewMailServer(t)
			a := d.configured(Config{
				Offer: tea(t, c.goal), Endpoints: []Endpoint{Ntfy{URL: topic.URL()}, Email{To: "operator@example.com", Server: post.Host()}}, Transport: topic.Transport(),
			})
			for _, s := range c.life {
				d.record(s)
			}
			a.rounds(t.Context())
			messages, letters := topic.Messages(), post.Connections()
			require.Len(t, letters, len(messages))
			m, letter := messages[len(messages)-1], read(t, letters[len(messages)-1].Letter)
			says := "Payment method: Card checkout\nOffer: Tea\nTotal: " + c.sum + "\nReceipt: https://pay.example/v1/receipt/of-1\n\nChange: "
			require.Equal(t, c.title, m.Title)
			require.True(t, strings.HasPrefix(m.Message, says), m.Message)
			require.Equal(t, "https://pay.example/v1/receipt/of-1", m.Click)
			require.Equal(t, c.tag, strings.Join(m.Tags, " "))
			require.Equal(t, c.priority, m.Priority)
			require.Equal(t, c.title, letter.subject)
			require.Equal(t, c.title+"\n\n"+m.Message, letter.text)
			for _, hidden := range []string{"re_", "dp_"} {
				require.NotContains(t, letter.text, hidden)
			}
		})
	}
}

func TestMessageText(t *testing.T) {
	d, topic := newFixture(t), payoffertest.NewNtfy(t)
	a := d.configured(Config{Offer: tea(t, 0), Endpoints: []Endpoint{Ntfy{URL: topic.URL()}}, Transport: topic.Transport()})
	d.record(changed(usdcObservation("0xaa", ledger.StatusSeen), func(s *ledger.Observation) { s.Own, s.USDCents = true, nil }))
	d.record(back("webhook", ledger.Return{ID: "re_1", Kind: ledger.ReturnRefund, Amount: 1050}))
	a.rounds(t.Context())
	var got []string
	for _, m := range topic.Messages() {
		_, about, found := strings.Cut(m.Message, "\n\n")
		require.True(t, found)
		got = append(got, about)
	}
	require.Equal(t, []string{
		"Change: new; it was read from the chain.\nStatus seen, evidence chain, value in US dollars unknown.\n" +
			"It does not count as received. It is your own payment.\nReference: eip155:84532:0xaa:0\nReceipt 1 of pay.example, version 1.\n",
		"Change: new; the provider reported it.\nStatus confirmed, evidence signed.\nIt counts as received, less refunds.\n" +
			"Reference: pi_1\nReceipt 2 of pay.example, version 1.\n",
		"Change: refunded from 0 USD to 10.50 USD; the provider reported it.\nStatus confirmed, evidence signed.\n" +
			"It counts as received, less refunds.\nReference: pi_1\nReceipt 2 of pay.example, version 2.\n",
	}, got)
	require.Contains(t, topic.Messages()[0].Message, "Payment method: usdc\n", "a rail that is no longer offered has only its name")
}

// Everyone who knows a topic reads it, and the receipt of a gate opens what was bought. A program gets no link at all.
func TestReceiptLinkOnlyInEmail(t *testing.T) {
	d, topic, post, hook, j := newFixture(t), payoffertest.NewNtfy(t), payoffertest.NewMailServer(t), payoffertest.NewReceiver(t), new(journal)
	o := tea(t, 0)
	o.Gates = []offer.Gate{{}}
	a := d.configured(Config{
		Offer: o, Journal: j.logger(), Transport: topic.Transport(),
		Endpoints: []Endpoint{Ntfy{URL: topic.URL()}, Email{To: "operator@example.com", Server: post.Host()}, Webhook{URL: hook.URL()}},
	})
	d.pay()
	a.rounds(t.Context())
	require.Empty(t, topic.Messages()[0].Click)
	require.Contains(t, topic.Messages()[0].Message, "Total: $42\n\nChange: ")
	require.Contains(t, read(t, post.Connections()[0].Letter).text, "Receipt: https://pay.example/v1/receipt/of-1\n")
	for _, said := range []string{string(topic.Requests()[0].Body), string(hook.Requests()[0].Body), j.String(), d.log.String()} {
		require.NotContains(t, said, "/v1/receipt/")
	}
}

// A message says all else while the sums cannot be read, or the key of the links is not loaded.
func TestMessageWithoutTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan payoffertest.NtfyMessage, 1)
		d, a := simulated(t, Config{
			Offer: tea(t, 1000_00), Page: func(ledger.Transition) string { return "" },
			Endpoints: []Endpoint{Ntfy{URL: "https://ntfy.example/topic"}},
			Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				var m payoffertest.NtfyMessage
				require.NoError(t, json.NewDecoder(r.Body).Decode(&m))
				got <- m
				return answer(http.StatusOK)
			}),
		})
		d.outbox.untotalled.Store(true)
		a.rounds(context.Background())
		d.pay()
		a.rounds(context.Background())
		m := <-got
		require.Equal(t, "$42 received", m.Title)
		require.True(t, strings.HasPrefix(m.Message, "Payment method: Card checkout\nOffer: Tea\n\nChange: "), m.Message)
		require.Empty(t, m.Click)
		require.Empty(t, a.health()[0].LastError)
	})
}

// An operator may name an offer as they like.
func TestMessageShowsOfferNameAsText(t *testing.T) {
	for _, name := range []string{`"><script>alert(1)</script>`, "Ünïcødé ☕ 茶", "=?utf-8?q?x?=", ".", strings.Repeat("long ", 40), "{{.Key}} %s"} {
		d, topic, post := newFixture(t), payoffertest.NewNtfy(t), payoffertest.NewMailServer(t)
		o := tea(t, 0)
		o.Name = name
		a := d.configured(Config{
			Offer: o, Endpoints: []Endpoint{Ntfy{URL: topic.URL()}, Email{To: "operator@example.com", Server: post.Host()}}, Transport: topic.Transport(),
		})
		d.pay()
		a.rounds(t.Context())
		letter := read(t, post.Connections()[0].Letter)
		require.Contains(t, letter.text, "\nOffer: "+name+"\nTotal: $42\n")
		require.Equal(t, "$42 received", letter.subject)
		require.Contains(t, topic.Messages()[0].Message, "\nOffer: "+name+"\nTotal: $42\n")
	}
}
