package web

import (
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

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
}

// transferPage is the bank-transfer rail: a page for people, JSON for
// programs.
func (s *Server) transferPage(t *offer.Transfer) http.HandlerFunc {
	m := t.Methods(s.Offer, offer.Live{})[0]
	terms := s.json(http.StatusOK, cacheDocument, transferTerms{
		Rail: m.Rail, Title: m.Title, Payee: s.Offer.Operator, AmountUSD: m.AmountUSD, Amount: m.AmountUSD.Decimal(),
		Currency: "USD", Memo: m.Memo, Inbox: m.PayTo, URI: m.URI,
	}, varyAccept)
	return negotiate(
		variant{asksJSON, terms},
		variant{asksHTML, s.shown(func(l *liveResponses) *response { return l.transfer })})
}

// renderTransfer is the page; it has a QR code once there is a key.
func (s *Server) renderTransfer(t *offer.Transfer, key []byte) []byte {
	view := newRailView(t, t.Methods(s.Offer, offer.Live{})[0], key)
	return execute(transferTemplate, struct {
		pageData
		Rail railView
	}{s.pageData(view.Title+": "+s.Offer.Name, offer.PagePath(t.Name())), view})
}
