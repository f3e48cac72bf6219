package announce

import (
	"context"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// sent is an e-mail as its reader sees it.
type sent struct {
	mail.Header
	subject, text string
}

func read(t *testing.T, letter string) sent {
	t.Helper()
	m := must(mail.ReadMessage(strings.NewReader(letter)))(t)
	subject := must(new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject")))(t)
	require.Equal(t, "quoted-printable", m.Header.Get("Content-Transfer-Encoding"))
	text := must(io.ReadAll(quotedprintable.NewReader(m.Body)))(t)
	return sent{m.Header, subject, strings.ReplaceAll(string(text), "\r\n", "\n")}
}

// The seller reads why a payment opens nothing, and what to do.
func TestMessageExplainsClosedGate(t *testing.T) {
	s, d := payoffertest.NewMailServer(t), newFixture(t)
	why := map[string]string{"pi_less": "This payment opens nothing, because it is less than the price."}
	a := d.configured(Config{
		Endpoints: []Endpoint{Email{Server: s.Host(), To: "operator@example.com"}},
		Closed:    func(_ context.Context, t ledger.Transition) string { return why[t.ExternalID] },
	})
	for _, reference := range []string{"pi_less", "pi_full"} {
		d.record(cardObservation(reference, ledger.StatusConfirmed))
	}
	a.rounds(t.Context())
	got := s.Connections()
	require.Len(t, got, 2)
	require.Contains(t, read(t, got[0].Letter).text, "\n"+why["pi_less"]+" To let the payer in, send a pass ('caddy pay-offer pass'). "+
		"For prices in other currencies, 'caddy pay-offer check --live' says what is missing.\n")
	require.NotContains(t, read(t, got[1].Letter).text, "pass")
}

// handing makes an announcer with one mailbox, and a payment for it.
func handing(t *testing.T, s *payoffertest.MailServer, e Email) (*fixture, *Announcer) {
	d := newFixture(t)
	e.Server = s.Host()
	if e.To == "" {
		e.To = "operator@example.com"
	}
	a := d.configured(Config{Offer: offer.Offer{Terms: offer.Terms{BaseURL: "https://pay.example:8443", Name: "Tea"}}, Endpoints: []Endpoint{e}})
	d.pay()
	a.rounds(t.Context())
	return d, a
}

func TestEmailHidesPayer(t *testing.T) {
	s := payoffertest.NewMailServer(t)
	d, a := handing(t, s, Email{From: "offer@example.com"})
	entered := cardObservation("Jane Roe", ledger.StatusConfirmed)
	entered.EvidenceLevel, entered.Note = ledger.LevelManual, "a note"
	d.record(entered)
	a.rounds(t.Context())
	got := s.Connections()
	require.Len(t, got, 2)
	require.Equal(t, "operator@example.com", got[0].To)
	require.Equal(t, "offer@example.com", got[0].From)
	require.Empty(t, got[0].Login)
	letter := read(t, got[0].Letter)
	require.Equal(t, "$42 received", letter.subject)
	require.Equal(t, `$42 received

Payment method: card
Offer: Tea
Total: $42
Receipt: https://pay.example/v1/receipt/of-1

Change: new; the provider reported it.
Status confirmed, evidence signed.
It counts as received, less refunds.
Reference: pi_1
Receipt 1 of pay.example, version 1.
`, letter.text)
	require.Equal(t, "<operator@example.com>", letter.Get("To"))
	require.Equal(t, "<offer@example.com>", letter.Get("From"))
	require.Equal(t, "auto-generated", letter.Get("Auto-Submitted"))
	require.Equal(t, "Fri, 15 Jan 2027 08:00:00 +0000", letter.Get("Date"))
	require.Regexp(t, `^<[0-9a-f]{32}@pay\.example>$`, letter.Get("Message-ID"))
	require.NotContains(t, got[1].Letter, "Jane")
	require.NotContains(t, got[1].Letter, "note")
}

// What a provider or a payer wrote is part of a line at most.
func TestNotificationTextNeverBecomesHeader(t *testing.T) {
	const bad = "US\r\nBcc: victim@example.com\r\n\r\n.\r\nMAIL FROM:<x@y.example>\r\n"
	s := payoffertest.NewMailServer(t)
	d := newFixture(t)
	a := d.configured(Config{Endpoints: []Endpoint{Email{To: "operator@example.com", Server: s.Host()}}})
	observation := cardObservation(bad, ledger.StatusConfirmed)
	observation.Asset, observation.USDCents = bad, nil
	d.record(observation)
	a.rounds(t.Context())
	got := s.Connections()
	require.Len(t, got, 1)
	require.True(t, got[0].Taken)
	require.Equal(t, "operator@example.com", got[0].To)
	letter := read(t, got[0].Letter)
	require.NotContains(t, letter.Header, "Bcc")
	require.Len(t, letter.Header, 9, "%v", letter.Header)

	n := payoffertest.NewNtfy(t)
	a = d.configured(Config{Endpoints: []Endpoint{Ntfy{URL: n.URL()}}, Transport: n.Transport()})
	observation.ExternalID = "pi_2"
	d.record(observation)
	a.rounds(t.Context())
	require.Contains(t, n.Messages()[0].Title, "42 US")
	for name := range n.Requests()[0].Header {
		require.Contains(t, []string{"Accept-Encoding", "Content-Length", "Content-Type", "User-Agent"}, name)
	}
}

// A server's trouble with itself, or with who logs in, is waited for, for good;
// what it says of a message is the message's.
func TestMailServerErrorClasses(t *testing.T) {
	type answer = payoffertest.MailReply
	for name, test := range map[string]struct {
		answer        answer
		reason        string
		concernsEvent bool
		password      string
	}{
		"no service":           {answer{At: "connect", Code: 554}, "server_error 554", false, "hunter2"},
		"busy":                 {answer{At: "connect", Code: 421}, "deferred 421", false, "hunter2"},
		"greeting refused":     {answer{At: "EHLO", Code: 550}, "server_error 550", false, "hunter2"},
		"another password":     {answer{}, "unauthorized 535", false, "hunter3"},
		"login not now":        {answer{At: "AUTH", Code: 454}, "deferred 454", false, "hunter2"},
		"login refused":        {answer{At: "AUTH", Code: 504}, "server_error 504", false, "hunter2"},
		"sender needs a login": {answer{At: "MAIL", Code: 530}, "unauthorized 530", false, "hunter2"},
		"sender refused":       {answer{At: "MAIL", Code: 553}, "refused 553", true, "hunter2"},
		"no such mailbox":      {answer{At: "RCPT", Code: 550}, "refused 550", true, "hunter2"},
		"mailbox is full":      {answer{At: "RCPT", Code: 452}, "deferred 452", false, "hunter2"},
		"no data":              {answer{At: "DATA", Code: 554}, "refused 554", true, "hunter2"},
		"spam":                 {answer{At: ".", Code: 554}, "refused 554", true, "hunter2"},
		"try later":            {answer{At: ".", Code: 451}, "deferred 451", false, "hunter2"},
		"gone in the middle":   {answer{At: "RCPT", Drop: true}, "unreachable", false, "hunter2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := payoffertest.NewMailServer(t)
			s.Login = "pay:hunter2"
			s.Script(test.answer)
			var told []int
			c := Config{Ledger: newFixture(t).outbox, Page: testPage, Now: time.Now, Dial: new(net.Dialer).DialContext, Sent: func(_ string, status int, _ time.Duration) { told = append(told, status) }}
			r, err := Email{To: "operator@example.com", Server: s.Host(), User: "pay", Password: test.password}.receiver(&c)
			require.NoError(t, err)
			f := r.deliver(t.Context(), newEvent(&c, transition(), false))
			require.Equal(t, test.reason, strings.TrimSuffix(fmt.Sprint(f.code, " ", f.status), " 0"))
			require.Equal(t, test.concernsEvent, f.concernsEvent())
			require.Equal(t, []int{f.status}, told)
		})
	}
}

func TestEmailPasswordNeedsTrustedServer(t *testing.T) {
	for name, test := range map[string]struct {
		email      Email
		extensions []string
		reason     string
	}{
		"no encryption where it is asked for": {Email{TLS: "starttls"}, nil, "unencrypted"},
		"no login":                            {Email{}, nil, "unauthorized"},
		"a certificate of nobody":             {Email{TLS: "starttls"}, []string{"STARTTLS"}, "server_error 502"},
		"no TLS at all":                       {Email{TLS: "implicit"}, nil, "unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			s := payoffertest.NewMailServer(t)
			s.Extensions = test.extensions
			test.email.User, test.email.Password = "pay", "hunter2"
			_, a := handing(t, s, test.email)
			asked, _, _ := strings.Cut(test.reason, " ")
			require.Equal(t, asked, a.health()[0].LastError)
			s.Down() // every talk has ended
			require.Empty(t, s.Connections()[0].Login)
			require.Empty(t, s.Connections()[0].From)
		})
	}
}

func TestChooseTLS(t *testing.T) {
	for _, test := range []struct{ server, word, want string }{
		{"mail.example:587", "", "starttls"}, {"mail.example:25", "", "starttls"}, {"mail.example:465", "", "implicit"},
		{"localhost:25", "", "off"}, {"[::1]:25", "", "off"}, {"127.0.0.1:465", "", "implicit"}, {"localhost:587", "starttls", "starttls"},
		{"mail.example:2465", "implicit", "implicit"}, {"localhost:25", "off", "off"},
	} {
		got := must(ChooseTLS(test.server, test.word))(t)
		require.Equal(t, test.want, got, test)
	}
	for _, test := range []struct{ server, word string }{
		{"mail.example:25", "off"}, {"mail.example", ""}, {":25", ""}, {"mail.example:", ""}, {"mail.example:x", ""}, {"mail.example:70000", ""},
		{"https://mail.example:25", ""}, {"pay@mail.example:25", ""}, {"mail.example\r\n:25", ""}, {"localhost:25", "maybe"}, {"192.0.2.1:25", "off"},
	} {
		_, err := ChooseTLS(test.server, test.word)
		require.Error(t, err, test)
	}
}

func TestEndpointConfigErrors(t *testing.T) {
	const server = "mail.example:587"
	hook := func(host string) Endpoint { return Webhook{URL: "https://" + host + ".example/hook"} }
	for name, test := range map[string]struct {
		endpoints []Endpoint
		says      string
	}{
		"no mailbox":   {[]Endpoint{Email{To: "operator", Server: server}}, "is not an e-mail address"},
		"two in one":   {[]Endpoint{Email{To: "a@example.com, b@example.com", Server: server}}, "is not an e-mail address"},
		"a header":     {[]Endpoint{Email{To: "a@example.com\r\nBcc: b@example.com", Server: server}}, "is not an e-mail address"},
		"bad sender":   {[]Endpoint{Email{To: "a@example.com", From: "<a@example.com>\r\n", Server: server}}, "is not an e-mail address"},
		"in the clear": {[]Endpoint{Email{To: "a@example.com", Server: server, TLS: "off"}}, "would not be encrypted"},
		"the same":     {[]Endpoint{Email{To: "a@example.com", Server: server}, Email{To: "a@example.com", Server: "other.example:587"}}, "have the same address"},
		"no topic":     {[]Endpoint{Ntfy{URL: "https://ntfy.example/"}}, "not the URL of a topic"},
		"a long topic": {[]Endpoint{Ntfy{URL: "https://ntfy.example/" + strings.Repeat("x", 65)}}, "not the URL of a topic"},
		"a query":      {[]Endpoint{Ntfy{URL: "https://ntfy.example/?to=/x"}}, "not the URL of a topic"},
		"the host":     {[]Endpoint{Ntfy{URL: "https://topic"}}, "not the URL of a topic"},
		"no host":      {[]Endpoint{Webhook{URL: "/hook"}}, "announce: endpoint 1: this is not an absolute URL"},
		"another kind": {[]Endpoint{Webhook{URL: "ftp://a.example/hook"}}, "not an absolute URL"},
		"hook in clear": {
			[]Endpoint{hook("a"), Webhook{URL: "http://b.example/hook"}},
			`announce: endpoint 2: the URL for host "b.example" is plain http`},
		"hook twice": {
			[]Endpoint{hook("a"), hook("b"), hook("a")},
			`announce: endpoints 1 and 3 have the same address (host "a.example")`},
		"ntfy in clear": {[]Endpoint{Ntfy{URL: "http://ntfy.example/topic"}}, "plain http"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Config{Endpoints: test.endpoints})
			require.ErrorContains(t, err, test.says)
			require.NotContains(t, err.Error(), "/hook")
		})
	}
}
