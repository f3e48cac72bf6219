package announce

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/observations"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

func transition() ledger.Transition {
	cents := int64(4250)
	after := accounting.Facts{
		Classification: accounting.Classification{Status: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelChain},
		Asset:          "USDC", Amount: 42_500_000, USDCents: &cents, OccurredAt: 1_800_000_000,
	}
	before := after
	before.Status = ledger.StatusSeen
	return ledger.Transition{
		Before: before, After: after,
		Seq: 12, Tag: 255, Offer: "pay.example", Account: "0xaccount", Rail: "usdc", ExternalID: "eip155:8453:0xab:0", Version: 3,
		From: ledger.StatusSeen, To: ledger.StatusConfirmed, Amount: 42_500_000, Cause: "poll", At: 1_800_000_100,
		ReceiptID: 7, Via: "x402", Asset: "USDC", USDCents: &cents, EvidenceLevel: ledger.LevelChain,
		OccurredAt: 1_800_000_000,
	}
}

func TestEventBody(t *testing.T) {
	body, err := newEvent(&Config{Offer: offer.Offer{Terms: offer.Terms{BaseURL: "https://pay.example"}}}, transition(), false).body()
	require.NoError(t, err)
	require.JSONEq(t, `{
		"type": "payment_confirmed",
		"timestamp": "2027-01-15T08:01:40Z",
		"data": {
			"id": "usdc:eip155:8453:0xab:0:3:00000000000000ff", "seq": 12, "cursor": "12.00000000000000ff", "offer": "pay.example", "baseUrl": "https://pay.example",
			"rail": "usdc", "externalId": "eip155:8453:0xab:0", "number": 7, "version": 3, "change": "status from seen to confirmed", "from": "seen", "status": "confirmed", "via": "x402",
			"evidence": "chain", "asset": "USDC", "amountAtomic": "42500000", "refundedAtomic": "0",
			"amountUsd": 42.50, "amountUsdDecimal": "42.50", "own": false, "testnet": false, "counted": true,
			"occurredAt": "2027-01-15T08:00:00Z", "recordedAt": "2027-01-15T08:01:40Z"
		}
	}`, string(body))
	require.Contains(t, string(body), `"amountUsd":42.50,`, "dollars go through no floating point")
}

func TestEventUnknownValueIsNull(t *testing.T) {
	unknown := transition()
	unknown.USDCents, unknown.Via = nil, ""
	data := must(newEvent(&Config{}, unknown, false).members())(t)
	require.Contains(t, data, "amountUsd")
	require.Nil(t, data["amountUsd"])
	require.Contains(t, data, "amountUsdDecimal")
	require.Nil(t, data["amountUsdDecimal"])
	require.NotContains(t, data, "via")
	require.NotContains(t, data, "baseUrl")
}

func FuzzEventID(f *testing.F) {
	f.Add("INV.42/a b", "INV-42")
	f.Add("x\r\nwebhook-signature: v1,", "%2E")
	f.Add("Überweisung", ".")
	f.Fuzz(func(t *testing.T, one, other string) {
		tr := transition()
		tr.ExternalID = one
		e := newEvent(&Config{}, tr, false)
		require.NotContains(t, e.id, ".")
		for _, b := range []byte(e.id) {
			require.True(t, b > ' ' && b < 0x7f, "%q", e.id)
		}
		body := must(e.body())(t)
		require.True(t, json.Valid(body))
		tr.ExternalID = other
		require.Equal(t, one == other, e.id == newEvent(&Config{}, tr, false).id, "two movements, two ids")
	})
}

func TestEventKeepsUnusualReference(t *testing.T) {
	tr := transition()
	tr.Rail, tr.ExternalID = "transfer", "INV.42/Ä <b>"
	e := newEvent(&Config{}, tr, false)
	require.Equal(t, "transfer:INV%2E42%2F%C3%84%20%3Cb%3E:3:00000000000000ff", e.id)
	body := must(e.body())(t)
	require.True(t, utf8.Valid(body))
	require.False(t, strings.Contains(string(body), "<b>"), "no markup, wherever it is shown")
	var payload struct{ Data struct{ ExternalID string } }
	require.NoError(t, json.Unmarshal(body, &payload))
	require.Equal(t, tr.ExternalID, payload.Data.ExternalID)
}

func TestInternalTransferNotification(t *testing.T) {
	for _, test := range []struct {
		from, to ledger.Status
		kind     string // empty where nobody is told
	}{
		{"", ledger.StatusMoved, ""},
		{ledger.StatusMoved, ledger.StatusMoved, ""},
		{ledger.StatusDropped, ledger.StatusMoved, ""},
		{ledger.StatusMoved, ledger.StatusDropped, ""},
		{ledger.StatusSeen, ledger.StatusMoved, "payment_dropped"},
		{ledger.StatusConfirmed, ledger.StatusMoved, "payment_dropped"},
		{ledger.StatusMoved, ledger.StatusConfirmed, "payment_confirmed"},
		{ledger.StatusSeen, ledger.StatusDropped, "payment_dropped"},
	} {
		tr := transition()
		tr.From, tr.To = test.from, test.to
		require.Equal(t, test.kind != "", isAnnounced(tr), "%s to %s", test.from, test.to)
		if test.kind != "" {
			require.Equal(t, test.kind, newEvent(&Config{}, tr, false).kind)
		}
	}
}

func TestEventBackfilled(t *testing.T) {
	tr := transition()
	require.False(t, newEvent(&Config{}, tr, false).data.(report.Event).Backfilled)
	tr.Cause = ledger.CauseBackfilled
	require.True(t, newEvent(&Config{}, tr, false).data.(report.Event).Backfilled)
}

// Only money that is new, or that arrives now, reads as received, and every other
// change says from what to what and why, wherever it is told.
func TestNotificationDescribesEveryChange(t *testing.T) {
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

// What an announcement calls counted is what the report counts at that moment.
func TestTestMoneyCountedUntilRealMoney(t *testing.T) {
	for network, want := range map[string][]string{
		"base-sepolia": {
			"payment_confirmed usdc:eip155:84532:0xaa:0:1 confirmed refunded=0 counted=true",
			"payment_confirmed card:pi_1:1 confirmed refunded=0 counted=true",
			"payment_confirmed usdc:eip155:84532:0xbb:0:1 confirmed refunded=0 counted=false",
		},
		"base": {
			"payment_confirmed usdc:eip155:84532:0xaa:0:1 confirmed refunded=0 counted=false",
			"payment_confirmed card:pi_1:1 confirmed refunded=0 counted=true",
			"payment_confirmed usdc:eip155:84532:0xbb:0:1 confirmed refunded=0 counted=false",
		},
	} {
		d, receiver := newFixture(t), payoffertest.NewReceiver(t)
		chain := must(offer.LookupNetwork(network))(t)
		a := d.configured(Config{
			Offer: offer.Offer{Rails: []offer.Rail{&offer.USDC{Network: chain}}}, Endpoints: []Endpoint{Webhook{URL: receiver.URL(), Secrets: []string{testSecret}}}, Transport: receiver.Transport(),
		})
		for _, s := range []ledger.Observation{
			usdcObservation("0xaa", ledger.StatusConfirmed), cardObservation("pi_1", ledger.StatusConfirmed), usdcObservation("0xbb", ledger.StatusConfirmed),
		} {
			d.record(s)
			a.rounds(t.Context())
		}
		require.Equal(t, want, lines(t, receiver))
	}
}

type reply = payoffertest.AnnouncedReply

func TestOfferNotifiesOnlyOwnPayments(t *testing.T) {
	d, receiver, a := listening(t)
	require.NoError(t, d.outbox.Register(t.Context(), ledger.Account{Offer: "other.example", ID: "plink_2", Rail: "card"}))
	foreign := cardObservation("pi_other", ledger.StatusConfirmed)
	foreign.Offer, foreign.Account = "other.example", "plink_2"
	d.record(foreign)
	d.pay()
	a.rounds(t.Context())
	require.Equal(t, []string{"card:pi_1:1"}, taken(t, receiver))
}

func TestDeliveryHonorsRetryAfter(t *testing.T) {
	d, receiver, a := listening(t)
	d.pay()
	receiver.Script(reply{Status: 503, RetryAfter: "600"})
	a.rounds(t.Context())
	d.after(599*time.Second, a)
	require.Len(t, receiver.Requests(), 1)
	d.after(time.Second, a)
	require.Len(t, taken(t, receiver), 1)
}
