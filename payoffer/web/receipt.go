package web

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// singleReceipts finds one payment; *ledger.Ledger documents each method.
type singleReceipts interface {
	gate.Ledger
	Accounts(ctx context.Context, offerID string) ([]ledger.Account, error)
	Invoice(ctx context.Context, offerID, account, hash string) (ledger.Invoice, bool, error)
}

// payment is the body of GET /v1/receipt/<id>: one payment, for its payer. What is not known yet is left out.
type payment struct {
	URL         string   `json:"url" jsonschema:"The page of this receipt. Everyone who has the address can read it."`
	ID          string   `json:"id,omitempty" jsonschema:"Identifies the payment by its evidence: the reference of the receipt. None while there is no evidence."`
	Offer       string   `json:"offer"`
	Name        string   `json:"name"`
	Operator    string   `json:"operator,omitempty" jsonschema:"The seller."`
	Legal       []string `json:"legal,omitempty" jsonschema:"What invoices say of the seller."`
	Description string   `json:"description" jsonschema:"What the status means."`
	report.Record
	Payer          string         `json:"payer,omitempty" jsonschema:"The address that paid."`
	Authorization  string         `json:"authorization,omitempty" jsonschema:"The nonce of the authorization that was charged."`
	TransactionURL string         `json:"transactionUrl,omitempty" jsonschema:"The transaction at a public explorer."`
	Signed         *x402.Artifact `json:"signedReceipt,omitempty" jsonschema:"A signed receipt, which anyone can verify by the domain alone."`
	SignedURL      string         `json:"signedReceiptUrl,omitempty" jsonschema:"The same to download."`
}

// noIndex keeps a response out of search engines, and noReferrer its URL from the sites that it links.
var (
	noIndex    = header{"X-Robots-Tag", "noindex"}
	noReferrer = header{"Referrer-Policy", "no-referrer"}
)

// receiptOf is the id of a receipt in the path of a request.
func receiptOf(r *http.Request) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, offer.PathReceipt+"/"), "/")
	return id
}

// receipt is GET /v1/receipt/<id>.
func (s *Server) receipt(r *http.Request) *response {
	id := strings.TrimPrefix(r.URL.Path, offer.PathReceipt+"/")
	row, problem := s.findPayment(r, id)
	if problem != nil {
		return cmp.Or(s.unpaid(r, id), problem)
	}
	p := s.payment(r.Context(), id, row)
	if prefersPage(r) {
		return s.receiptPage(r, row, p)
	}
	return s.personal.json(http.StatusOK, cacheNever, p, varyAccept, noIndex, noReferrer)
}

// signedReceipt is GET /v1/receipt/<id>/receipt.jws.
func (s *Server) signedReceipt(r *http.Request) *response {
	id := receiptOf(r)
	row, problem := s.findPayment(r, id)
	if problem != nil {
		return problem
	}
	signed := s.sign(r.Context(), row)
	if signed == nil {
		return s.noReceipt()
	}
	return s.personal.render(http.StatusOK, "application/jose", cacheNever, []byte(signed.Signature+"\n"), noIndex, noReferrer,
		header{"Content-Disposition", `attachment; filename="receipt.jws"`})
}

// noReceipt is the response to every id without a payment. It does not tell the reason.
func (s *Server) noReceipt() *response {
	return s.personal.refuse(problemNotFound, "receipt", nil, noIndex, noReferrer)
}

// findPayment reads the payment of an id.
func (s *Server) findPayment(r *http.Request, id string) (ledger.Receipt, *response) {
	key := s.QRKey()
	if key == nil {
		return ledger.Receipt{}, s.personal.notStarted()
	}
	ctx, cancel := context.WithTimeout(r.Context(), ledgerTimeout)
	defer cancel()
	p, found, err := s.readPayment(ctx, key, id)
	problem := s.orUnavailable(s.personal, err, r, nil, noIndex, noReferrer)
	if problem == nil && !found {
		problem = s.noReceipt()
	}
	return p.Receipt, problem
}

// readPayment reads the payment of an id.
func (s *Server) readPayment(ctx context.Context, key []byte, id string) (p ledger.Payment, found bool, err error) {
	accounts, err := s.Receipts.Accounts(ctx, s.Offer.ID)
	account, name, ok := parseReceiptID(key, s.Offer.ID, accounts, id)
	if err != nil || !ok {
		return p, false, err
	}
	return s.Receipts.Payment(ctx, s.Offer.ID, account, name)
}

// payment is a receipt for its payer.
func (s *Server) payment(ctx context.Context, id string, r ledger.Receipt) payment {
	p := payment{
		URL: s.Offer.URL(offer.PathReceipt + "/" + id), ID: r.ExternalID, Offer: r.Offer, Name: s.Offer.Name, Operator: s.Offer.Operator,
		Legal: s.Offer.Legal, Description: s.statusSentence(text.Languages[0], r), Record: report.NewRecord(r),
		Payer: r.Payer, Authorization: r.Nonce, Signed: s.sign(ctx, r),
	}
	if rail := s.railOf(r); rail != nil {
		p.TransactionURL = rail.TransactionURL(r.Transaction)
	}
	if p.Signed != nil {
		p.SignedURL = p.URL + signedFile
	}
	return p
}

// sign signs a receipt that names the payer and the chain, as those of x402 do. It returns nil for any other, for a
// payment that was dropped or returned, and for a transfer below the price. A payment by an authorization of ours is
// signed before it is confirmed, as in the answer to it. All instances sign the same bytes, as of the last change.
func (s *Server) sign(ctx context.Context, r ledger.Receipt) *x402.Artifact {
	network, _, _ := strings.Cut(r.Account, "/")
	valid := r.Status == ledger.StatusClaimed || r.EvidenceLevel == ledger.LevelChain &&
		(r.Status == ledger.StatusConfirmed || r.Status == ledger.StatusSeen && r.IntentID != nil)
	if !valid || r.Payer == "" {
		return nil
	}
	_, lacks, err := s.Keeper.PriceOf(ctx, r)
	if full := err == nil && lacks == "" || r.Status == ledger.StatusClaimed || r.IntentID != nil; !full {
		return nil
	}
	transaction := ""
	if r.Final {
		transaction = r.Transaction
	}
	return s.Payments.SignReceipt(network, r.Payer, transaction, r.UpdatedAt)
}

// railOf is the rail of a receipt; nil if the offer no longer has it. The chain of the receipt must be that of the
// rail, because a rail's name can be given to another chain.
func (s *Server) railOf(r ledger.Receipt) offer.Rail {
	chain, _, _ := strings.Cut(r.Account, "/")
	if rail, found := s.Offer.Rail(r.Rail); found && (!strings.Contains(chain, ":") || strings.HasPrefix(rail.Account(), chain+"/")) {
		return rail
	}
	if network, payTo, err := offer.ParseUSDCAccount(r.Account); err == nil {
		if rail, err := offer.NewUSDC(r.Rail, network, payTo, s.Offer.Amount); err == nil {
			return rail
		}
	}
	if rail, err := offer.ParseBitcoinAccount(r.Account, s.Offer.Amount); err == nil {
		return rail
	}
	return nil
}

// isReceipt reports whether the page of a payment is a receipt: the money arrived and was not refunded in full.
func isReceipt(r ledger.Receipt) bool { return r.Status == ledger.StatusConfirmed }

// statusSentence is what the status means. Only a payment on a chain can have left the chain.
func (s *Server) statusSentence(l *text.Language, r ledger.Receipt) string {
	key := s.statusKey(r)
	if chain, _, _ := strings.Cut(r.Account, "/"); key == string(ledger.StatusDropped) && strings.Contains(chain, ":") {
		key = "droppedChain"
	}
	return l.Text("receipt.say."+key, "amount", formatter{l, s.Offer}.amount(r.Asset, r.Refunded))
}

// statusKey is the status of a receipt in the keys of the texts.
func (s *Server) statusKey(r ledger.Receipt) string {
	switch {
	case isReceipt(r) && r.Refunded > 0:
		return "part"
	case r.Status == ledger.StatusClaimed && s.isUnobserved(r.Account):
		return "claimedOnly"
	}
	return accounting.Classification{Status: r.Status, EvidenceLevel: r.EvidenceLevel}.Word()
}

// isUnobserved reports whether the server does not read the chain of an account, so that only the facilitator reports
// payments. The server still reads the chain of a removed rail.
func (s *Server) isUnobserved(account string) bool {
	network, _, err := offer.ParseUSDCAccount(account)
	return err == nil && slices.ContainsFunc(s.Offer.USDC(), func(u *offer.USDC) bool {
		return u.Network.ChainID == network.ChainID && slices.ContainsFunc(s.Health(), func(h observe.Health) bool {
			return h.Rail == u.Name() && h.Source == report.SourceFacilitator
		})
	})
}

// Closed says why a confirmed payment opens no gate, in a language; else it is empty.
func (s *Server) Closed(ctx context.Context, l *text.Language, r ledger.Receipt) string {
	reason := s.Keeper.Closed(ctx, r)
	if reason == "" {
		return ""
	}
	return l.Text("gate.closed." + string(reason))
}
