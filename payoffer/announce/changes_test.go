package announce

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/observations"
)

// Only money that is new, or that arrives now, reads as received, and every other
// change says from what to what and why, wherever it is told.
func TestEveryKindOfChangeIsToldAsWhatItIsInEveryForm(t *testing.T) {
	d, j := newFixture(t), new(journal)
	require.NoError(t, d.outbox.Register(t.Context(), ledger.Account{Offer: testOffer, ID: observations.CardAccount, Rail: "card"}))
	hook, topic, post := payoffertest.NewReceiver(t), payoffertest.NewNtfy(t), payoffertest.NewMailServer(t)
	a := d.configured(Config{Journal: j.logger(), Endpoints: []Endpoint{Webhook{URL: hook.URL()}, Ntfy{URL: topic.URL()}, Email{To: "operator@example.com", Server: post.Host()}}, Transport: hook.Transport()})
	version := func(number, version int64) string {
		return fmt.Sprintf("Receipt %d of pay.example, version %d.\n", number, version)
	}
	last := map[string]string{} // the line that names the last version of each payment
	for _, c := range observations.Changes() {
		receipts, err := d.outbox.Record(t.Context(), nil, c.Life...)
		require.NoError(t, err, c.Name)
		receipt := receipts[len(receipts)-1]
		last[c.Name] = version(receipt.ID, receipt.Version)
	}
	for range 2 { // there are more than one reading brings
		a.rounds(t.Context())
	}
	for _, s := range a.health() {
		require.Equal(t, EndpointHealth{Host: s.Host}, s)
	}

	messages, letters, hooks, lines := map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}
	for _, m := range topic.Messages() {
		messages[m.Message[strings.Index(m.Message, "Receipt "):]] = m.Title + "\n" + m.Message
	}
	for _, c := range post.Connections() {
		letter := read(t, c.Letter)
		letters[letter.text[strings.Index(letter.text, "Receipt "):]] = letter.subject + "\n" + letter.text
	}
	for _, r := range hook.Requests() {
		var e struct {
			Data struct {
				Number, Version int64
				Change          string
			}
		}
		require.NoError(t, json.Unmarshal(r.Body, &e))
		hooks[version(e.Data.Number, e.Data.Version)] = e.Data.Change
	}
	for line := range strings.Lines(j.String()) {
		var l struct {
			Number, Version int64
			Change          string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		lines[version(l.Number, l.Version)] = l.Change
	}
	for _, c := range observations.Changes() {
		t.Run(c.Name, func(t *testing.T) {
			at := last[c.Name]
			require.Equal(t, c.Words+"; "+c.Why, lines[at])
			if c.Quiet {
				require.NotContains(t, messages, at)
				require.NotContains(t, letters, at)
				require.NotContains(t, hooks, at)
				return
			}
			require.Equal(t, c.Words, hooks[at])
			for _, said := range []string{messages[at], letters[at]} {
				require.True(t, strings.HasPrefix(said, c.Headline), said)
				require.Contains(t, said, "\n\nChange: "+c.Words+"; "+c.Why+".\nStatus ")
			}
		})
	}
}
