package web

import (
	"net/http"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
)

// noRateRetry is the Retry-After of a rail without a price of Bitcoin.
const noRateRetry = 60 * time.Second

// liveState is what may change while the configuration stays (the price of Bitcoin, the published address, the
// keys), and the responses that were rendered from it.
type liveState struct {
	now     offer.Live
	qrKey   []byte
	keys    []document.VerificationKey // that sign
	answers cache[pageKey, *response]
}

// pageKey identifies a response by its path, and a page also by its language.
type pageKey struct {
	path, language string
	chosen         bool
}

func (s *Server) newLiveState() *liveState {
	live := &liveState{now: s.Live(), qrKey: s.QRKey()}
	if s.Keys != nil {
		live.keys = s.Keys()
	}
	return live
}

// page is the page of a frame, rendered once.
func (l *liveState) page(f page.Frame, render func() *response) *response {
	return l.answers.get(pageKey{f.Path, f.Language.Tag, f.Chosen}, render)
}

// fromLive serves a response that is rendered from the live state, once for each path.
func (s *Server) fromLive(path string, render func(*liveState) *response) responseFunc {
	return func(*http.Request) *response {
		live := s.live.Load()
		return live.answers.get(pageKey{path: path}, func() *response { return render(live) })
	}
}

// didDocument is the DID document, at both of its paths.
func (s *Server) didDocument() http.Handler { return s.fromLive(offer.PathDID, s.did) }

func (s *Server) did(live *liveState) *response {
	return s.document(document.DID(s.Offer, live.keys...))
}

// liveDocument is a document that a price changes, or that Accept chooses.
func (s *Server) liveDocument(d document.Document, headers ...header) *response {
	return s.compressible(d.Type, cacheLive, d.Body, headers...)
}

// invoices is GET /v1/invoice, and methods is GET /v1/pay.
func (s *Server) invoices() http.Handler {
	return negotiate(s.forPrograms(), s.forPeople(), variant{asksURIs, s.fromLive(offer.PathInvoice+" list", s.links)})
}

func (s *Server) methods() http.Handler { return negotiate(s.forPrograms(), s.forPeople()) }

func (s *Server) forPrograms() variant {
	return variant{asksJSON, s.fromLive(offer.PathInvoice, s.invoice)}
}

func (s *Server) forPeople() variant { return variant{asksHTML, responseFunc(s.payPage)} }

// invoice is GET /v1/invoice as JSON, and links is the same as a list of URIs.
func (s *Server) invoice(live *liveState) *response {
	return s.liveDocument(document.Invoice(s.Offer, live.now), varyAccept)
}

func (s *Server) links(live *liveState) *response {
	var links []string
	for _, m := range s.Offer.Methods(live.now) {
		if m.Available {
			links = append(links, m.Link())
		}
	}
	return s.liveDocument(document.URIList(links...), varyAccept)
}

// priced serves what needs the price of a rail. Without a price it is refused, because amounts are never guessed.
func (s *Server) priced(path string, rail offer.Rail, render func(*liveState, offer.Method) *response) responseFunc {
	return s.fromLive(path, func(live *liveState) *response {
		m := rail.Methods(s.Offer, live.now)[0]
		if !m.Available {
			return s.refuse(problemNoRate, "detail", offer.With{"reason": m.Why, "url": s.Offer.URL(offer.PathInvoice)}, retryAfter(noRateRetry))
		}
		return render(live, m)
	})
}

func (s *Server) railURI(rail offer.Rail) http.Handler {
	path := offer.URIPath(rail.Name())
	list := s.priced(path, rail, func(_ *liveState, m offer.Method) *response {
		return s.liveDocument(document.URIList(m.Link()), varyAccept)
	})
	terms := s.priced(path+" "+typeJSON, rail, func(_ *liveState, m offer.Method) *response {
		return s.liveDocument(document.Method(s.Offer, m), varyAccept)
	})
	return negotiate(variant{asksURIs, list}, variant{asksJSON, terms})
}

func (s *Server) railImage(rail offer.Rail) http.Handler {
	return s.priced(offer.PNGPath(rail.Name()), rail, func(live *liveState, m offer.Method) *response {
		if live.qrKey == nil {
			return s.notStarted()
		}
		return s.redirect(qrPath(live.qrKey, m.Rail, m.Link()))
	})
}

// transferTerms are the terms of the bank transfer as JSON.
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
	// Bank is nil if the account is sent only by e-mail.
	Bank *offer.Bank `json:"bank,omitempty" jsonschema:"The account to pay to, with the memo as the reference."`
}

// bankTransfer is the bank-transfer rail: a page or JSON.
func (s *Server) bankTransfer(t *offer.BankTransfer) http.Handler {
	terms := renderOnce(func() *response {
		m := t.Methods(s.Offer, offer.Live{})[0]
		return s.terms(transferTerms{
			Rail: m.Rail, Title: m.Title, Payee: s.Offer.Operator, AmountUSD: m.AmountUSD, Amount: m.AmountUSD.Decimal(),
			Currency: "USD", Memo: m.Memo, Inbox: m.PayTo, URI: m.URI, Bank: m.Bank,
		})
	})
	return negotiate(
		variant{asksJSON, terms},
		variant{asksHTML, s.transferPage(t)})
}
