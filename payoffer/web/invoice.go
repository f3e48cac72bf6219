package web

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Invoicer makes the invoices of a rail. Only POST calls it: an invoice costs the seller's wallet something.
type Invoicer interface {
	// IsReady reports whether NewInvoice would ask the wallet now.
	IsReady() bool
	// NewInvoice makes and stores an invoice. Errors: observe.ErrNoLedger, or one of the wallet.
	NewInvoice(ctx context.Context) (ledger.Invoice, error)
}

// invoiceRetry is the Retry-After while the wallet makes no invoice.
const invoiceRetry = 30 * time.Second

// paymentRequest is an invoice for its payer, before it is paid.
type paymentRequest struct {
	URL          string    `json:"url" jsonschema:"The page of this payment: it becomes the receipt. Everyone who has the address can read it."`
	Rail         string    `json:"rail"`
	Status       string    `json:"status" jsonschema:"Whether it can be paid. A payment that arrives later counts, too."`
	Request      string    `json:"paymentRequest,omitempty" jsonschema:"What a wallet pays (BOLT 11)."`
	URI          string    `json:"uri,omitempty"`
	Hash         string    `json:"paymentHash" jsonschema:"Identifies the payment."`
	AmountUSD    offer.USD `json:"amountUsd"`
	Asset        string    `json:"asset"`
	AmountAtomic string    `json:"amountAtomic" jsonschema:"Satoshis."`
	ValidUntil   string    `json:"validUntil"`
	Monitored    bool      `json:"monitored" jsonschema:"Whether this server sees the payment by itself. Otherwise the seller enters it."`
}

// Values of paymentRequest.Status.
const (
	requestOpen    = "open"
	requestExpired = "expired"
)

// newInvoice is POST of a rail: it makes an invoice and leads a browser to its page. A form of another site makes none, because
// its visitors did not choose to pay.
func (s *Server) newInvoice(r *http.Request, rail offer.Rail) *response {
	if s.isCrossSite(r) {
		return s.toMethod(r, rail)
	}
	s.WaitStarted(r.Context())
	key, elsewhere := s.QRKey(), offer.With{"url": s.Offer.URL(offer.PathMethods)}
	if key == nil {
		return s.personal.notStarted()
	}
	if m := rail.Methods(s.Offer, s.live.Load().now)[0]; !m.Available {
		elsewhere["reason"] = m.Why
		return s.personal.refuse(problemNoRate, "detail", elsewhere, retryAfter(noRateRetry))
	}
	invoicer := s.Invoices[rail.Name()]
	if !invoicer.IsReady() {
		return s.personal.refuse(problemInvoice, "detail", elsewhere, retryAfter(invoiceRetry))
	}
	// Only a call of the wallet costs an attempt. One client must not use up the invoices of all.
	if wait := s.Limiter.TakeAttempt(x402.ClientNetwork(s.ClientIP(r), 48), s.Now()); wait > 0 {
		return s.personal.refuse(problemTooManyTries, "invoice", nil, retryAfter(wait))
	}
	i, err := invoicer.NewInvoice(r.Context())
	switch {
	case errors.Is(err, observe.ErrNoLedger):
		return s.orUnavailable(s.personal, err, r, nil)
	case err != nil:
		return s.personal.refuse(problemInvoice, "detail", elsewhere, retryAfter(invoiceRetry))
	case prefersPage(r):
		return s.personal.redirect(s.frame(r, "").Link(offer.PathReceipt+"/"+invoiceID(key, i)), noReferrer)
	}
	return s.personal.json(http.StatusOK, cacheNever, s.paymentRequest(key, i), varyAccept, noIndex, noReferrer)
}

// isCrossSite reports whether a browser sends the form of another site. Without Sec-Fetch-Site, which no browser sends over
// http, the origin must be that of the request or the offer. It is null for forms of our pages, because of their Referrer-Policy.
func (s *Server) isCrossSite(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "cross-site"
	}
	origin := r.Header.Get("Origin")
	return origin != "" && origin != "null" && offer.Host(origin) != r.Host && offer.Host(origin) != offer.Host(s.Offer.BaseURL)
}

// toMethod leads to a rail on the payment page.
func (s *Server) toMethod(r *http.Request, rail offer.Rail) *response {
	return s.redirect(s.frame(r, "").Link(offer.PathMethods) + "#" + rail.Name())
}

// invoiceID is the id of its receipt.
func invoiceID(key []byte, i ledger.Invoice) string {
	return receiptID(key, ledger.Receipt{Offer: i.Offer, Account: i.Account, ExternalID: i.Hash})
}

func (s *Server) paymentRequest(key []byte, i ledger.Invoice) paymentRequest {
	end := payableUntil(i)
	p := paymentRequest{
		URL: s.Offer.URL(offer.PathReceipt + "/" + invoiceID(key, i)), Rail: i.Rail, Status: requestExpired, Hash: i.Hash, AmountUSD: offer.USD(i.USDCents),
		Asset: offer.LightningAsset, AmountAtomic: strconv.FormatInt(i.Satoshis, 10), ValidUntil: accounting.Timestamp(end), Monitored: i.Verify != "",
	}
	if s.Now().Unix() < end {
		p.Status, p.Request, p.URI = requestOpen, i.Request, offer.RailLightning+":"+i.Request
	}
	return p
}

// payableUntil is when an invoice ends for its payer: at the wallet, or for this price.
func payableUntil(i ledger.Invoice) int64 { return min(i.ExpireAt, i.PriceUntil()) }

// unpaid is the response about an invoice that has no receipt, or nil if the id is of none.
func (s *Server) unpaid(r *http.Request, id string) *response {
	key := s.QRKey()
	ctx, cancel := context.WithTimeout(r.Context(), ledgerTimeout)
	defer cancel()
	accounts, err := s.Receipts.Accounts(ctx, s.Offer.ID)
	account, name, ok := parseReceiptID(key, s.Offer.ID, accounts, id)
	hash, _, _ := accounting.ParseName(name)
	if key == nil || err != nil || !ok || hash == "" { // without the key anyone could make an id
		return nil
	}
	i, found, err := s.Receipts.Invoice(ctx, s.Offer.ID, account, hash)
	if err != nil || !found {
		return s.orUnavailable(s.personal, err, r, nil, noIndex, noReferrer)
	}
	s.WatchInvoice(account, hash)
	p := s.paymentRequest(key, i)
	if prefersPage(r) {
		return s.invoicePage(r, key, i, p)
	}
	return s.personal.json(http.StatusOK, cacheNever, p, varyAccept, noIndex, noReferrer)
}

// dueView is an invoice as its page shows it.
type dueView struct {
	paymentRequest
	Href template.URL // html/template would reject the scheme
	QR   string       // the path of the image
	Left string       // how long it can be paid
	Says string       // its status
}

// invoicePage is the page of an invoice, which shows the receipt when it is paid.
func (s *Server) invoicePage(r *http.Request, key []byte, i ledger.Invoice, p paymentRequest) *response {
	f := s.frame(r, "")
	say, end := formatter{f.Language, s.Offer}, time.Unix(payableUntil(i), 0)
	due := &dueView{paymentRequest: p, Href: template.URL(p.URI), Says: f.Language.Text("rail.lightning.expired")}
	if p.Status == requestOpen {
		left := end.Sub(s.Now())
		due.Left = f.Language.Text("rail.lightning.left", "n", int64((left+time.Minute-1)/time.Minute), "time", end.UTC().Format("15:04 UTC"))
		due.Says = f.Language.Text("rail.lightning.open")
		due.QR = qrPath(key, i.Rail, offer.RailLightning+":"+strings.ToUpper(p.Request)) // capitals make a smaller code
	}
	view := receiptView{payment: payment{URL: p.URL}, Due: due, Open: true, Paid: say.amount(p.Asset, i.Satoshis), Worth: say.amount("USD", i.USDCents)}
	return s.personal.page(http.StatusOK, cacheNever, page.Pending.Render(f, due.Says+": "+f.Offer.Name, view), noIndex)
}
