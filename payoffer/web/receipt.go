package web

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// singleReceipts finds one payment.
type singleReceipts interface {
	// Accounts are all that the offer ever had.
	Accounts(ctx context.Context, offerID string) ([]ledger.Account, error)
	// Receipt is the receipt of that external id.
	Receipt(ctx context.Context, offerID, account, externalID string) (ledger.Receipt, bool, error)
	// LastAuthorizationReceipt is the receipt of a payment by an authorization, a
	// dropped one where there is no other.
	LastAuthorizationReceipt(ctx context.Context, account, payer, nonce string) (ledger.Receipt, bool, error)
	// Intent is what was sent to be settled.
	Intent(ctx context.Context, key ledger.IntentKey) (ledger.Intent, bool, error)
}

// payment is the body of GET /v1/receipt/<id>: one payment, for who made it. What is
// not known of it yet is left out.
type payment struct {
	URL            string   `json:"url" jsonschema:"The page of this receipt. Whoever has the address can read it."`
	ID             string   `json:"id,omitempty" jsonschema:"Names the movement of money by its evidence: the reference of the receipt. None while there is no evidence."`
	Offer          string   `json:"offer"`
	Name           string   `json:"name"`
	Operator       string   `json:"operator,omitempty" jsonschema:"Who was paid."`
	Legal          []string `json:"legal,omitempty" jsonschema:"What invoices say of who was paid."`
	Rail           string   `json:"rail"`
	Via            string   `json:"via,omitempty" jsonschema:"How the money was sent, where it is known."`
	Status         string   `json:"status" jsonschema:"settling: not decided yet. claimed: whoever carries the payment out says that it was made. All others are those of a receipt in the report."`
	Description    string   `json:"description" jsonschema:"What the status means."`
	Evidence       string   `json:"evidence,omitempty" jsonschema:"What proves the payment."`
	Final          bool     `json:"final" jsonschema:"Whether nothing can change the receipt any more."`
	Testnet        bool     `json:"testnet"`
	Asset          string   `json:"asset"`
	AmountAtomic   string   `json:"amountAtomic"`
	RefundedAtomic string   `json:"refundedAtomic"`
	dollars
	RefundedUSD        *offer.USD     `json:"refundedUsd" jsonschema:"US dollars. The part of amountUsd that went back."`
	RefundedUSDDecimal *string        `json:"refundedUsdDecimal"`
	ValueBasis         string         `json:"valueBasis,omitempty" jsonschema:"How the value in US dollars was fixed."`
	Payer              string         `json:"payer,omitempty" jsonschema:"The address that paid."`
	Authorization      string         `json:"authorization,omitempty" jsonschema:"The nonce of the authorization that was charged."`
	Transaction        string         `json:"transaction,omitempty" jsonschema:"Where the movement is recorded."`
	TransactionURL     string         `json:"transactionUrl,omitempty" jsonschema:"The transaction at a public explorer."`
	OccurredAt         string         `json:"occurredAt" jsonschema:"When the money moved; while there is no evidence, when it was sent."`
	Day                string         `json:"day,omitempty" jsonschema:"The day on which it moved, where the operator entered a day: occurredAt is the moment at which that began there."`
	Signed             *x402.Artifact `json:"signedReceipt,omitempty" jsonschema:"What the service signed of it, for anyone to verify by its domain alone."`
	SignedURL          string         `json:"signedReceiptUrl,omitempty" jsonschema:"The same to download."`
}

// noIndex keeps an answer out of search engines.
var noIndex = header{"X-Robots-Tag", "noindex"}

// receipt is GET /v1/receipt/<id>.
func (s *Server) receipt(r *http.Request) *response {
	id := strings.TrimPrefix(r.URL.Path, offer.PathReceipt+"/")
	row, problem := s.findPayment(r, id)
	if problem != nil {
		return problem
	}
	p := s.payment(id, row)
	if prefer(r.Header["Accept"], [][]string{asksJSON, asksHTML}) == 1 {
		return s.receiptPage(r, row, p)
	}
	return s.personal.json(http.StatusOK, cacheNever, p, varyAccept, noIndex, noReferrer)
}

// signedReceipt is GET /v1/receipt/<id>/receipt.jws.
func (s *Server) signedReceipt(r *http.Request) *response {
	id := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, offer.PathReceipt+"/"), signedFile)
	row, problem := s.findPayment(r, id)
	if problem != nil {
		return problem
	}
	signed := s.sign(row)
	if signed == nil {
		return s.noReceipt()
	}
	return s.personal.render(http.StatusOK, "application/jose", cacheNever, []byte(signed.Signature+"\n"), noIndex, noReferrer,
		header{"Content-Disposition", `attachment; filename="receipt.jws"`})
}

// noReferrer keeps the address from the sites that an answer links.
var noReferrer = header{"Referrer-Policy", "no-referrer"}

// noReceipt is the one answer to every id that names nothing, whyever it does not.
func (s *Server) noReceipt() *response {
	return s.personal.refuse(problemNotFound, "receipt", nil, noIndex, noReferrer)
}

// findPayment reads what an id names.
func (s *Server) findPayment(r *http.Request, id string) (ledger.Receipt, *response) {
	key := s.QRKey()
	if key == nil {
		return ledger.Receipt{}, s.personal.notStarted()
	}
	ctx, cancel := context.WithTimeout(r.Context(), ledgerTimeout)
	defer cancel()
	row, found, err := s.readPayment(ctx, key, id)
	switch {
	case err != nil:
		if r.Context().Err() == nil && !s.unread.Swap(true) { // else it is only that nobody waits any more
			s.Logger.Warn("cannot read a receipt", "error", err)
		}
		return row, s.personal.refuse(problemLedger, "detail", nil, retryAfter(ledgerRetry), noIndex, noReferrer)
	case !found:
		return row, s.noReceipt()
	}
	s.unread.Store(false)
	return row, nil
}

// readPayment finds the payment that an id names: its row, or what was sent to be
// settled while no row that stands is known.
func (s *Server) readPayment(ctx context.Context, key []byte, id string) (row ledger.Receipt, found bool, err error) {
	accounts, err := s.Receipts.Accounts(ctx, s.Offer.ID)
	account, name, ok := parseReceiptID(key, s.Offer.ID, accounts, id)
	if err != nil || !ok {
		return row, false, err
	}
	if reference, is := strings.CutPrefix(name, byReference); is {
		return s.Receipts.Receipt(ctx, s.Offer.ID, account, reference)
	}
	payer, nonce, _ := strings.Cut(strings.TrimPrefix(name, byAuthorization), "/")
	row, found, err = s.Receipts.LastAuthorizationReceipt(ctx, account, payer, nonce)
	if err != nil || found && row.Status != ledger.StatusDropped {
		return row, found, err
	}
	network, _, err := offer.ParseUSDCAccount(account)
	if err != nil {
		return row, found, nil // only there are authorizations
	}
	intent, known, err := s.Receipts.Intent(ctx, ledger.IntentKey{Network: network.CAIP2(), Asset: network.USDC, From: payer, Nonce: nonce})
	if err != nil || !known || intent.Account != account || found && intent.State == ledger.IntentRefused {
		return row, found, err
	}
	return asReceipt(intent), true, nil
}

// asReceipt is what is known of a payment without a row.
func asReceipt(i ledger.Intent) ledger.Receipt {
	r := ledger.Receipt{
		Offer: i.Offer, Account: i.Account, Rail: i.Rail, Via: "x402", Asset: i.Asset, Amount: i.Amount, USDCents: i.USDCents, ValueBasis: ledger.BasisFace,
		Payer: i.From, Nonce: i.Nonce, Own: i.Own, Testnet: i.Testnet, OccurredAt: i.CreatedAt, UpdatedAt: i.UpdatedAt, Status: ledger.StatusSettling,
	}
	switch i.State {
	case ledger.IntentSettled:
		r.Status, r.EvidenceLevel, r.Transaction = ledger.StatusClaimed, ledger.EvidenceLevel(i.Evidence), i.Transaction
	case ledger.IntentRefused:
		r.Status = ledger.StatusDropped
	}
	return r
}

// payment is what a row says to who paid.
func (s *Server) payment(id string, r ledger.Receipt) payment {
	p := payment{
		URL: s.Offer.URL(offer.PathReceipt + "/" + id), ID: r.ExternalID, Offer: r.Offer, Name: s.Offer.Name, Operator: s.Offer.Operator, Legal: s.Offer.Legal,
		Rail: r.Rail, Via: r.Via, Status: string(r.Status), Evidence: string(r.EvidenceLevel), Final: r.Final, Testnet: r.Testnet, Asset: r.Asset,
		AmountAtomic: strconv.FormatInt(r.Amount, 10), RefundedAtomic: strconv.FormatInt(r.Refunded, 10), dollars: newDollars(r.USDCents), ValueBasis: string(r.ValueBasis),
		Payer: r.Payer, Authorization: r.Nonce, Transaction: r.Transaction, OccurredAt: timestamp(r.OccurredAt), Day: manual.Day(r), Signed: s.sign(r),
	}
	p.Description = s.receiptSays(text.Languages[0], r)
	if rail := s.railOf(r); rail != nil {
		p.TransactionURL = rail.TransactionURL(r.Transaction)
	}
	if r.USDCents != nil {
		p.RefundedUSD, p.RefundedUSDDecimal = inDollars(&r.RefundedCents)
	}
	if p.Signed != nil {
		p.SignedURL = p.URL + signedFile
	}
	return p
}

// sign signs a receipt where it says who paid on which chain, as those of x402 do,
// and that stands: nil for any other, and for a transfer that is less than the price.
// An authorization of ours was signed for in the answer to it, before it was sure. The
// time is that from which on the receipt says so, for every instance signs alike.
func (s *Server) sign(r ledger.Receipt) *x402.Artifact {
	network, _, _ := strings.Cut(r.Account, "/")
	stands := r.Status == ledger.StatusClaimed || r.EvidenceLevel == ledger.LevelChain &&
		(r.Status == ledger.StatusConfirmed || r.Status == ledger.StatusSeen && r.IntentID != nil)
	whole := r.Status == ledger.StatusClaimed || r.IntentID != nil || r.USDCents != nil && *r.USDCents >= int64(s.Offer.Amount)
	if !stands || !whole || r.Payer == "" {
		return nil
	}
	transaction := ""
	if r.Final {
		transaction = r.Transaction
	}
	return s.Payments.SignReceipt(network, r.Payer, transaction, r.UpdatedAt)
}

// railOf is the rail that a receipt came by; nil where the offer has it no more. A
// rail of a chain has that chain still: names are given anew.
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

// isReceipt reports whether the page of a payment is a receipt: the money arrived,
// and it did not all go back.
func isReceipt(r ledger.Receipt) bool {
	return accounting.Standing{Status: r.Status, EvidenceLevel: r.EvidenceLevel}.Held()
}

// receiptSays is what its state means: only what was on a chain can have left it.
func (s *Server) receiptSays(l *text.Language, r ledger.Receipt) string {
	state := s.receiptState(r)
	if chain, _, _ := strings.Cut(r.Account, "/"); state == string(ledger.StatusDropped) && strings.Contains(chain, ":") {
		state = "droppedChain"
	}
	return l.Text("receipt.say."+state, "amount", inLanguage(l, r.Asset, r.Refunded))
}

// receiptState is what a receipt amounts to in the words of the catalogues.
func (s *Server) receiptState(r ledger.Receipt) string {
	at := accounting.Standing{Status: r.Status, EvidenceLevel: r.EvidenceLevel}
	switch {
	case at.Held() && r.Refunded > 0:
		return "part"
	case at.Status == ledger.StatusClaimed && s.isUnread(r.Account):
		return "claimedOnly"
	}
	return string(at.Status)
}

// isUnread reports whether nobody here reads the chain of an account, of which a
// facilitator's word is then all. A chain that the offer left is read.
func (s *Server) isUnread(account string) bool {
	network, _, err := offer.ParseUSDCAccount(account)
	return err == nil && slices.ContainsFunc(s.Offer.USDC(), func(u *offer.USDC) bool {
		return u.Network.ChainID == network.ChainID && slices.ContainsFunc(s.Health(), func(h observe.Health) bool {
			return h.Rail == u.Name() && h.Source == sourceFacilitator
		})
	})
}
