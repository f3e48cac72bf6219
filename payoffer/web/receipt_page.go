package web

import (
	"net/http"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// receiptView is a payment as its page shows it.
type receiptView struct {
	payment
	State string
	Says  string // what the state means
	// Document says that it is a receipt: the money arrived.
	// Open says that the state may still change by itself.
	Document, Open bool
	Rail           offer.Phrase
	// Paid, Worth, Back and Kept are amounts: what was paid, what that was worth where
	// it is no dollars, what went back, and what is left where that is only a part.
	Paid, Worth, Back, Kept string
	Basis                   string // the key of how Worth was fixed, or empty
	Moment                  string
	Proof                   string // the key of the evidence's text, or empty
	Explorer                string // the host of TransactionURL
}

// receiptPage is the page of a payment.
func (s *Server) receiptPage(r *http.Request, row ledger.Receipt, p payment) *response {
	f := s.frame(r, "") // it is nobody else's to come back to
	state := s.receiptState(row)
	view := receiptView{
		payment: p, State: state, Says: s.receiptSays(f.Language, row), Rail: offer.Literal(row.Rail), Moment: teller{f.Language, s.Offer}.when(p.OccurredAt, p.Day), Paid: inLanguage(f.Language, row.Asset, row.Amount),
		Document: isReceipt(row), Open: slices.Contains([]string{"settling", "claimed", "seen"}, state),
	}
	if rail := s.railOf(row); rail != nil {
		view.Rail = rail.Face().Way
	}
	if row.USDCents != nil && row.Asset != "USD" {
		view.Worth = inLanguage(f.Language, "USD", *row.USDCents)
	}
	if b := row.ValueBasis; b != "" && b != ledger.BasisFace {
		view.Basis = "receipt.basis." + string(b)
	}
	if row.Refunded > 0 {
		view.Back = inLanguage(f.Language, row.Asset, row.Refunded)
	}
	if state == "part" {
		view.Kept = inLanguage(f.Language, row.Asset, row.Amount-row.Refunded)
	}
	if p.Evidence != "" {
		view.Proof = "receipt.proof." + p.Evidence
	}
	if p.TransactionURL != "" {
		view.Explorer = offer.Host(p.TransactionURL)
	}
	title := "receipt.title"
	if !view.Document {
		title = "receipt.titleOpen"
	}
	sheet := page.Receipt
	if view.Open {
		sheet = page.Pending
	}
	return s.personal.page(http.StatusOK, cacheNever, sheet.Render(f, f.Language.Text(title)+": "+s.Offer.Name, view), noIndex)
}

// inLanguage is an amount of an asset as a language writes it.
func inLanguage(l *text.Language, asset string, atomic int64) string {
	unit := offer.UnitOf(asset)
	decimal := unit.Decimal(atomic)
	if unit.Digits == 2 {
		decimal = offer.USD(atomic).Decimal()
	}
	return l.Number(decimal) + "\u00a0" + unit.Symbol
}
