package web

import (
	"net/http"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// noRateRetry is when to ask a rail without a rate again.
const noRateRetry = 60 * time.Second

// liveResponses are those that follow from what may change while the
// configuration stays: the rate, the published address, the keys.
type liveResponses struct {
	invoice, list *response
	// did is the DID document, which lists the keys that sign.
	did *response
	// uri, terms and png are by rail; terms are the URI for who asks for JSON.
	uri, terms, png map[string]*response
	// now and qrKey are what all of it is made of, and pages what people see of it.
	now   offer.Live
	qrKey []byte
	pages livePages
}

func (s *Server) renderLive() *liveResponses {
	o, now, key := s.Offer, s.Live(), s.QRKey()
	invoice := document.Invoice(o, now)
	var keys []document.VerificationKey
	if s.Keys != nil {
		keys = s.Keys()
	}
	live := &liveResponses{
		did:     s.document(document.DID(o, keys...)),
		invoice: s.render(http.StatusOK, invoice.Type, cacheLive, invoice.Body, varyAccept),
		now:     now, qrKey: key,
		uri: make(map[string]*response), terms: make(map[string]*response), png: make(map[string]*response),
	}
	var links []string
	for _, rail := range o.Rails {
		methods := rail.Methods(o, now)
		name := rail.Name()
		live.uri[name], live.terms[name], live.png[name] = s.railResponses(methods[0], key)
		for _, m := range methods {
			if m.Available {
				links = append(links, m.Link())
			}
		}
	}
	list := document.URIList(links...)
	live.list = s.render(http.StatusOK, list.Type, cacheLive, list.Body, varyAccept)
	return live
}

// railResponses are <rail>.uri, for who asks for JSON too, and <rail>.png of a
// method. Without a price there is none of them, for an amount is never guessed.
func (s *Server) railResponses(m offer.Method, key []byte) (uri, terms, png *response) {
	if !m.Available {
		no := s.refuse(problemNoRate, "detail", offer.With{"reason": m.Why, "url": s.Offer.URL(offer.PathInvoice)}, retryAfter(noRateRetry))
		return no, no, no
	}
	list, method := document.URIList(m.Link()), document.Method(s.Offer, m)
	uri = s.render(http.StatusOK, list.Type, cacheLive, list.Body, varyAccept)
	terms = s.render(http.StatusOK, method.Type, cacheLive, method.Body, varyAccept)
	if key == nil {
		return uri, terms, s.notStarted()
	}
	return uri, terms, s.redirect(qrPath(key, m.Rail, m.Link()))
}

// shown serves one of the live responses.
func (s *Server) shown(choose func(*liveResponses) *response) answer {
	return func(*http.Request) *response { return choose(s.live.Load()) }
}

// transferTerms are the terms of the bank transfer for programs.
type transferTerms struct {
	Rail      string    `json:"rail"`
	Title     string    `json:"title"`
	Payee     string    `json:"payee"`
	AmountUSD offer.USD `json:"amountUsd"`
	Amount    string    `json:"amount"`
	Currency  string    `json:"currency"`
	Memo      string    `json:"memo" jsonschema:"The text that identifies the offer on the bank statement."`
	Inbox     string    `json:"inbox" jsonschema:"The e-mail address that answers with the bank details."`
	URI       string    `json:"uri" jsonschema:"The mail that asks for the invoice."`
	// Bank is nil where the account is told by e-mail alone.
	Bank *offer.Bank `json:"bank,omitempty" jsonschema:"The account to pay to, with the memo as the reference."`
}

// bankTransfer is the bank-transfer rail: a page for people, JSON for
// programs.
func (s *Server) bankTransfer(t *offer.Transfer) http.HandlerFunc {
	m := t.Methods(s.Offer, offer.Live{})[0]
	terms := s.json(http.StatusOK, cacheDocument, transferTerms{
		Rail: m.Rail, Title: m.Title, Payee: s.Offer.Operator, AmountUSD: m.AmountUSD, Amount: m.AmountUSD.Decimal(),
		Currency: "USD", Memo: m.Memo, Inbox: m.PayTo, URI: m.URI, Bank: m.Bank,
	}, varyAccept)
	return negotiate(
		variant{asksJSON, terms},
		variant{asksHTML, s.transferPage(t)})
}
