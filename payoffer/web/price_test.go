package web

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// A receipt says what was offered when it was paid, and is signed if it paid that.
func TestReceiptShowsOfferAtPaymentTime(t *testing.T) {
	for name, c := range map[string]struct {
		description string
		prices      []int64
		says        string
		signed      bool
	}{
		"after a rise":         {offer.DefaultDescription(50_00), []int64{42_00}, "One fixed payment of 42 USD.", true},
		"in the day of a rise": {offer.DefaultDescription(50_00), []int64{50_00, 42_00}, "One fixed payment of 42 USD.", true},
		"after a fall":         {offer.DefaultDescription(50_00), []int64{60_00}, "One fixed payment of 60 USD.", false},
		"unchanged":            {offer.DefaultDescription(50_00), []int64{50_00}, "One fixed payment of 50 USD.", false},
		"the seller's own":     {"A year of everything.", []int64{42_00}, "A year of everything.", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			row := w.payment(t, "usdc", nil) // of 42 USD
			o := *w.offer
			o.Amount, o.Description = 50_00, c.description
			w.offer, w.prices = &o, c.prices
			s := w.server(t)
			path := "/v1/receipt/" + receiptID(qrKey, row)
			page := read(t, send(t, s, "GET", path, "", "Accept", browser))
			require.Contains(t, page, c.says)
			require.Equal(t, strings.Contains(c.says, "50"), strings.Contains(page, "One fixed payment of 50 USD"))
			require.Equal(t, c.signed, strings.Contains(page, "receipt.jws"))
			require.Equal(t, c.signed, readJSON(t, send(t, s, "GET", path, ""))["signedReceipt"] != nil)
			require.Equal(t, c.signed, send(t, s, "GET", path+"/receipt.jws", "").StatusCode == 200)
		})
	}
}

// A payment that opens nothing says why, and how to reach the seller: on the receipt and after the checkout, in every language.
func TestReceiptExplainsClosedGate(t *testing.T) {
	refund := []ledger.Return{{ID: "re_1", Kind: ledger.ReturnRefund, Amount: 1, Gone: true, At: at.Unix()}}
	for name, c := range map[string]struct {
		checkout ledger.Checkout
		change   func(*ledger.Observation)
		later    time.Duration
		reason   gate.Reason // empty for none
		says     string
	}{
		"paid":              {ledger.Checkout{Subtotal: 42_00}, nil, 0, "", ""},
		"a promotion code":  {ledger.Checkout{Subtotal: 42_00}, func(s *ledger.Observation) { s.Amount, s.USDCents = 41_58, cents(41_58) }, 0, "", ""},
		"less":              {ledger.Checkout{}, func(s *ledger.Observation) { s.Amount, s.USDCents = 41_58, cents(41_58) }, 0, gate.ReasonLess, "it is less than the price"},
		"fixed euros":       {ledger.Checkout{Price: ledger.PriceFixed}, inEuros, 0, "", ""},
		"chosen euros":      {ledger.Checkout{Price: ledger.PriceChosen}, inEuros, 0, gate.ReasonChosen, "A freely chosen amount counts in US dollars only"},
		"unknown euros":     {ledger.Checkout{}, inEuros, 0, gate.ReasonCurrency, "the price in its currency is unknown"},
		"a test":            {ledger.Checkout{Subtotal: 42_00}, func(s *ledger.Observation) { s.Testnet = true }, 0, gate.ReasonTest, "it was a test"},
		"refunded in part":  {ledger.Checkout{Subtotal: 42_00}, func(s *ledger.Observation) { s.Returns = refund }, 0, gate.ReasonRefunded, "because of a refund"},
		"over":              {ledger.Checkout{Subtotal: 42_00}, nil, time.Hour, gate.ReasonEnded, "has ended"},
		"less, and over":    {ledger.Checkout{}, func(s *ledger.Observation) { s.USDCents = cents(1) }, time.Hour, gate.ReasonLess, "it is less than the price"},
		"not confirmed yet": {ledger.Checkout{}, func(s *ledger.Observation) { s.State = ledger.StatusSeen }, 0, "", ""},
		"failed":            {ledger.Checkout{}, func(s *ledger.Observation) { s.State = ledger.StatusDropped }, 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGated(t)
			c.checkout.Session = "cs_1"
			s := ledger.Observation{
				Offer: g.world.offer.ID, Account: g.card.ID, Rail: "card", ExternalID: "pi_1", Asset: "USD", Amount: 42_00, USDCents: cents(42_00),
				ValueBasis: ledger.BasisFace, State: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelSigned, Evidence: offer.JSON(c.checkout), OccurredAt: at.Unix(), Cause: "webhook",
			}
			if c.change != nil {
				c.change(&s)
			}
			rows := must(g.ledger.Record(t.Context(), nil, s))(t)
			g.now = g.now.Add(c.later)
			for _, l := range text.Languages {
				for _, path := range []string{"/v1/receipt/" + receiptID(qrKey, rows[0]) + "?", "/v1/thanks?session_id=cs_1&"} {
					page := read(t, send(t, g.server, "GET", path+"lang="+l.Tag, "", "Accept", browser))
					entry := strings.Contains(page, "/enter\"")
					require.Equal(t, c.reason == "" && rows[0].Status == ledger.StatusConfirmed, entry, "%s %s", l.Tag, path)
					if c.reason == "" {
						if entry { // else the page of a pending payment names the seller
							require.NotContains(t, page, l.Text("gate.write"))
						}
						continue
					}
					require.Contains(t, page, l.Text("gate.closed."+string(c.reason))+" "+l.Text("gate.write")+` <a href="mailto:pay@example.org">`)
					if l.Tag == "en" {
						require.Contains(t, page, c.says)
					}
				}
			}
		})
	}
}

func inEuros(s *ledger.Observation) {
	s.Asset, s.Amount, s.USDCents, s.ValueBasis = "EUR", 39_00, nil, ""
}

// How the seller is reached without an address is the seller's site. Without a gate nothing is missing.
func TestReceiptSellerContact(t *testing.T) {
	w := newWorld(t)
	row := w.payment(t, "card", func(r *ledger.Receipt) { r.USDCents = cents(1) })
	path := "/v1/receipt/" + receiptID(qrKey, row)
	open := func() string { return read(t, send(t, w.server(t), "GET", path, "", "Accept", browser)) }
	require.NotContains(t, open(), "opens nothing")
	card := must(offer.NewCard(checkout, nil, 42_00))(t)
	for contact, link := range map[string]string{"pay@example.org": "mailto:pay@example.org", "": "https://www.example.org/"} {
		all := terms()
		all.Contact = contact
		w.offer = must(offer.New(all, card))(t)
		w.offer.Gates = []offer.Gate{{Start: "https://www.example.org/members/", Access: time.Hour}}
		require.Contains(t, open(), `Write to the seller: <a href="`+link+`">`)
	}
	w.err = errors.New("away")
	require.Equal(t, 503, send(t, w.server(t), "GET", path, "", "Accept", browser).StatusCode)
}

// Every reason has a sentence.
func TestGateReasonsHaveText(t *testing.T) {
	for _, reason := range []gate.Reason{
		gate.ReasonLess, gate.ReasonChosen, gate.ReasonCurrency, gate.ReasonValue, gate.ReasonTest, gate.ReasonRefunded, gate.ReasonEnded,
	} {
		for _, l := range text.Languages {
			require.NotEqual(t, "gate.closed."+string(reason), l.Text("gate.closed."+string(reason)))
		}
	}
}

// A checkout with a discount of 100 % brings no payment: the page that waits says so after a while, and names the seller.
func TestThanksPageExplainsFreeCheckout(t *testing.T) {
	page := read(t, send(t, newWorld(t).server(t), "GET", "/v1/thanks?session_id=cs_free", "", "Accept", browser))
	require.Contains(t, page, "A code for 100% is not a payment.")
	require.Contains(t, page, "mailto:pay@example.org")
}
