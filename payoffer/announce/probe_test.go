package announce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// payments are the words that a payment is recognized by.
var payments = []string{"payment_", "received", "confirmed", "counts", "/v1/receipt/", "Receipt", "a receipt"}

func TestTestMessageReportsEachEndpoint(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fails  func(f *form)
		answer string // empty for the form's own code
	}{
		"accepts": {func(*form) {}, ""},
		"refuses": {func(f *form) { f.script(refuses) }, "refused"},
		"defers":  {func(f *form) { f.script(defers) }, ""}, // a code of its own
		"is down": {func(f *form) { f.down() }, "unreachable: check the host name and the firewall"},
	} {
		t.Run(name, func(t *testing.T) {
			overForms(t, func(t *testing.T, d *fixture, f *form) {
				a := f.announcer(d)
				before := must(d.outbox.Transitions(t.Context(), testOffer, 0, 10))(t)
				c.fails(f)
				got := a.Test(t.Context(), "")
				require.Len(t, got, 1)
				require.Equal(t, f.host, got[0].Host)
				want := c.answer
				if name == "defers" {
					want = f.later
				}
				require.True(t, strings.HasPrefix(got[0].LastError, want), got[0].LastError)
				require.Equal(t, want == "", got[0].LastError == "")
				require.Len(t, f.taken(), map[bool]int{true: 1}[want == ""])
				for _, secret := range []string{"secret-path", "hunter2", "tk_example", testSecret} {
					require.NotContains(t, fmt.Sprint(got), secret)
					d.requireLogged(0, secret)
				}
				require.Equal(t, before, must(d.outbox.Transitions(t.Context(), testOffer, 0, 10))(t))
				require.Equal(t, EndpointHealth{Host: f.host}, a.health()[0], "a test is no delivery that failed or waits")
			})
		})
	}
}

// What waits is delivered as before, and a second test is another message.
func TestTestMessageKeepsBacklog(t *testing.T) {
	t.Parallel()
	overForms(t, func(t *testing.T, d *fixture, f *form) {
		a := f.announcer(d)
		f.script(defers)
		d.pay()
		a.rounds(t.Context())
		require.Empty(t, a.Test(t.Context(), "")[0].LastError)
		require.Equal(t, EndpointHealth{Host: f.host, Behind: 1, LastError: f.later}, a.health()[0])
		require.Empty(t, a.Test(t.Context(), "")[0].LastError)
		d.after(maxPause, a)
		got := f.taken()
		require.Len(t, got, 3)
		require.NotEqual(t, got[0], got[1], "the second test is not a repetition")
		require.Equal(t, f.history(d), got[2:])
	})
}

// A program that books payments, and a reader, see that nothing was paid.
func TestTestMessageIsNotPayment(t *testing.T) {
	d, topic, post, hook, j := newFixture(t), payoffertest.NewNtfy(t), payoffertest.NewMailServer(t), payoffertest.NewReceiver(t), new(journal)
	type raised struct {
		name string
		data map[string]any
	}
	var events []raised
	a := d.configured(Config{
		Offer: tea(t, 1000_00), Journal: j.logger(), Transport: topic.Transport(),
		Emit:      func(name string, data map[string]any) error { events = append(events, raised{name, data}); return nil },
		Closed:    func(context.Context, ledger.Transition) string { return "This payment opens nothing." },
		Endpoints: []Endpoint{Ntfy{URL: topic.URL()}, Email{To: "operator@example.com", Server: post.Host()}, Webhook{URL: hook.URL(), Secrets: []string{testSecret}}},
	})
	for _, result := range a.Test(t.Context(), "") {
		require.Empty(t, result.LastError, result.Host)
	}
	const title, text = "Test: notifications arrive", "This is a test of the notifications of Tea. It is about no payment.\n"
	message, letter := topic.Messages()[0], read(t, post.Connections()[0].Letter)
	require.Equal(t, title, message.Title)
	require.Equal(t, text, message.Message)
	require.Equal(t, []string{"test_tube"}, message.Tags)
	require.Empty(t, message.Click)
	require.Equal(t, title, letter.subject)
	require.Equal(t, title+"\n\n"+text, letter.text)

	request := hook.Requests()[0]
	var body struct {
		Type, Timestamp string
		Data            map[string]any
	}
	require.NoError(t, json.Unmarshal(request.Body, &body))
	require.Equal(t, "notification_test", body.Type)
	require.Equal(t, "2027-01-15T08:00:00Z", body.Timestamp)
	require.Equal(t, map[string]any{"id": request.Header.Get("webhook-id"), "offer": testOffer, "counted": false}, body.Data)
	require.Regexp(t, `^test:[A-Z2-7]{26}$`, body.Data["id"])
	require.NotEmpty(t, request.Header.Get("webhook-signature"))

	require.Len(t, events, 1)
	require.Equal(t, "notification_test", events[0].name)
	require.Equal(t, false, events[0].data["counted"])
	require.Empty(t, j.String(), "nobody answers for the log")
	for _, said := range []string{message.Message, message.Title, letter.text, string(request.Body)} {
		for _, word := range payments {
			require.NotContains(t, said, word)
		}
	}
	require.Empty(t, must(d.outbox.Receipts(t.Context(), testOffer, 0, 10))(t))
	require.Empty(t, must(d.outbox.Totals(t.Context(), testOffer))(t))
}

// A failed backup reaches the operator as a warning, and not as a test.
func TestTextMessageIsWarning(t *testing.T) {
	d, topic, post, hook := newFixture(t), payoffertest.NewNtfy(t), payoffertest.NewMailServer(t), payoffertest.NewReceiver(t)
	a := d.configured(Config{
		Offer: tea(t, 1000_00), Transport: topic.Transport(),
		Endpoints: []Endpoint{Ntfy{URL: topic.URL()}, Email{To: "operator@example.com", Server: post.Host()}, Webhook{URL: hook.URL(), Secrets: []string{testSecret}}},
	})
	for _, result := range a.Test(t.Context(), "The backup failed.\nRead its log.") {
		require.Empty(t, result.LastError, result.Host)
	}
	message, letter := topic.Messages()[0], read(t, post.Connections()[0].Letter)
	const title, text = "Message from your server", "The backup failed.\nRead its log.\nOffer: Tea\n"
	require.Equal(t, title, message.Title)
	require.Equal(t, text, message.Message)
	require.Equal(t, []string{"warning"}, message.Tags)
	require.Equal(t, 4, message.Priority)
	require.Equal(t, title, letter.subject)
	require.Equal(t, title+"\n\n"+text, letter.text)
	var body struct{ Data map[string]any }
	require.NoError(t, json.Unmarshal(hook.Requests()[0].Body, &body))
	require.Equal(t, "The backup failed.\nRead its log.", body.Data["text"])
}

func TestTestMessageDuringReloadFails(t *testing.T) {
	d := newFixture(t)
	a := d.configured(Config{Emit: func(string, map[string]any) error { return errors.New("/secret-path failed") }})
	got := a.Test(t.Context(), "")
	require.Equal(t, "events", got[0].Host)
	require.Equal(t, "reloaded: nothing: the next configuration emits it", got[0].LastError)
}

// The seller finds the payment by what its provider calls it. A reference that the seller wrote may be a name.
func TestMessageShowsProviderReference(t *testing.T) {
	hash := "0x" + strings.Repeat("ab", 32)
	entered := changed(cardObservation("Jane Roe", ledger.StatusConfirmed), func(s *ledger.Observation) { s.EvidenceLevel = ledger.LevelManual })
	for want, s := range map[string]ledger.Observation{
		"\nReference: pi_3abc":                     cardObservation("pi_3abc", ledger.StatusConfirmed),
		"\nReference: eip155:84532:" + hash + ":0": usdcObservation(hash, ledger.StatusConfirmed),
		"":                         entered,
		"\nReference: pi 1 Bcc: x": cardObservation("pi\r\n1\nBcc: x", ledger.StatusConfirmed),
		"\nReference: " + strings.Repeat("x", 200): cardObservation(strings.Repeat("x", 250), ledger.StatusConfirmed),
	} {
		d, topic, post := newFixture(t), payoffertest.NewNtfy(t), payoffertest.NewMailServer(t)
		a := d.configured(Config{
			Offer: offer.Offer{Terms: offer.Terms{Name: "Tea"}}, Transport: topic.Transport(),
			Endpoints: []Endpoint{Ntfy{URL: topic.URL()}, Email{To: "operator@example.com", Server: post.Host()}},
		})
		d.record(s)
		a.rounds(t.Context())
		for _, text := range []string{topic.Messages()[0].Message, read(t, post.Connections()[0].Letter).text} {
			require.Contains(t, text, want+"\nReceipt 1 of pay.example, version 1.\n")
			require.Equal(t, want != "", strings.Contains(text, "Reference"), text)
			require.NotContains(t, text, "Jane")
		}
	}
}

func TestMessageShowsVoidedEntry(t *testing.T) {
	d, topic := newFixture(t), payoffertest.NewNtfy(t)
	a := d.configured(Config{Endpoints: []Endpoint{Ntfy{URL: topic.URL()}}, Transport: topic.Transport()})
	for _, s := range []ledger.Observation{cardObservation("INV-1", ledger.StatusConfirmed), back("voided_by_operator", ledger.Return{ID: "operator", Kind: ledger.ReturnReversal})} {
		s.ExternalID, s.EvidenceLevel = "INV-1", ledger.LevelManual
		d.record(s)
	}
	a.rounds(t.Context())
	require.Equal(t, "$42 voided", topic.Messages()[1].Title)
	require.Contains(t, topic.Messages()[1].Message, "\nStatus voided, evidence manual.\n")
}
