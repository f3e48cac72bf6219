package web

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
)

// receiptView is a payment as its page shows it.
type receiptView struct {
	payment
	access
	Due            *dueView // an invoice that is not paid, and no payment
	State, Says    string   // the status as a key of the texts, and its sentence
	Closed         string   // why it opens nothing, or empty
	Document, Open bool     // the page is a receipt; the status may still change
	Rail           offer.Phrase
	Number         int64 // of the row in the ledger; 0 without evidence
	// Paid is the amount, Worth its value if it is not in dollars, Back the refunded amount, and Kept the rest of it.
	Paid, Worth, Back, Kept string
	BackFor                 string // the key of the text for Back
	Void                    bool   // nothing of the amount is kept
	Code                    string // the QR code of the page as an SVG path in a square of Side units
	Side                    int
	Basis, Proof            string // keys of the texts for the basis of Worth and for the evidence, or empty
	Moment, Ago             string // when it was sent, and while Open also as the time since
	Usual                   string // how long a blockchain usually takes; empty for other rails
	Explorer                string // the host of TransactionURL
}

// receiptPage is the page of a payment.
func (s *Server) receiptPage(r *http.Request, row ledger.Receipt, p payment) *response {
	f := s.frame(r, "") // a page without an address that others could open
	f.Paid = row.Status != ledger.StatusDropped
	say := formatter{f.Language, s.Offer}
	state := s.statusKey(row)
	price, _, err := s.Keeper.PriceOf(r.Context(), row)
	if err != nil {
		return s.orUnavailable(s.personal, err, r, nil, noIndex, noReferrer)
	}
	f.Offer = f.Language.Offer(*s.Offer, price)
	view := receiptView{
		Closed: s.Closed(r.Context(), f.Language, row),
		access: s.accessOf(r, row, say), payment: p, State: state, Says: s.statusSentence(f.Language, row), Rail: offer.Literal(row.Rail), Moment: say.when(p.OccurredAt, p.Day),
		Paid: say.amount(row.Asset, row.Amount), Document: isReceipt(row), Open: slices.Contains([]string{"settling", "claimed", "seen"}, state),
	}
	if rail := s.railOf(row); rail != nil {
		view.Rail = rail.Face().Way
		if strings.Contains(row.Account, ":") {
			view.Usual = f.Language.Say(rail.Face().Hint)
		}
	}
	kept := row.Amount - row.Refunded
	if view.Void = !view.Open && !view.Document && state != "claimedOnly"; view.Void {
		kept = 0
	}
	view.Kept = say.amount(row.Asset, kept)
	if row.ExternalID != "" {
		view.Number = row.ID
	}
	view.Code, view.Side = qrSVG(p.URL)
	if row.USDCents != nil && row.Asset != "USD" {
		view.Worth = say.amount("USD", *row.USDCents)
	}
	if b := row.ValueBasis; b != "" && b != ledger.BasisFace {
		view.Basis = "receipt.basis." + string(b)
	}
	if row.Refunded > 0 {
		view.Back, view.BackFor = say.amount(row.Asset, row.Refunded), "receipt.refunded"
	}
	if slices.Contains([]string{"refunded", "reversed", "voided"}, state) {
		view.Back, view.BackFor = say.amount(row.Asset, row.Amount), "receipt.state."+state
	}
	if p.Evidence != "" {
		view.Proof = "receipt.proof." + p.Evidence
	}
	if p.TransactionURL != "" {
		view.Explorer = offer.Host(p.TransactionURL)
	}
	sheet := page.Receipt
	if view.Open {
		sheet, view.Ago = page.Pending, say.since(p.OccurredAt, p.Day, s.Now().UTC().Format(time.RFC3339))
	}
	return s.personal.page(http.StatusOK, cacheNever, sheet.Render(f, f.Language.Text("receipt.state."+state)+": "+f.Offer.Name, view), noIndex, s.paidCookie())
}
