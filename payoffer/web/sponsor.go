package web

import (
	"errors"
	"net/http"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// payableTerms and cardTerms are the terms of the quote and how to pay, with and without a
// USDC rail.
type (
	payableTerms struct {
		x402.PaymentRequiredV1
		howToPay
	}
	cardTerms struct {
		x402.CardQuote
		howToPay
	}
	howToPay struct {
		Offer       string    `json:"offer"`
		Description string    `json:"description"`
		How         string    `json:"howToPay" jsonschema:"How to pay."`
		Method      string    `json:"method"`
		URL         string    `json:"url" jsonschema:"The payable URL."`
		AmountUSD   offer.USD `json:"amountUsd"`
		Currency    string    `json:"currency"`
		Invoice     string    `json:"invoice" jsonschema:"Every payment method."`
	}
)

// sponsorTerms is GET /v1/sponsor.
func (s *Server) sponsorTerms() http.Handler {
	return negotiate(variant{asksJSON, once(s.howToSponsor)}, variant{asksHTML, responseFunc(s.sponsorPage)})
}

// howToSponsor is GET /v1/sponsor for API clients: the terms with status 200.
func (s *Server) howToSponsor() *response {
	o, terms := s.Offer, s.Payments.Quote().Terms
	how := howToPay{
		Offer: o.ID, Description: o.Description, Method: http.MethodPost, URL: o.URL(offer.PathSponsor),
		AmountUSD: o.Amount, Currency: "USD", Invoice: o.URL(offer.PathInvoice),
	}
	if len(s.Payments.Accepts()) == 0 {
		how.How = "This offer takes no x402 payment. Open fallback.url, or choose another payment method from invoice."
		return s.terms(cardTerms{terms.CardQuote, how})
	}
	how.How = "Send POST to url without a payment to get the quote (402), sign one of accepts, and send POST again with the payment in " +
		x402.HeaderSignature + ". First raise your client's spending limit to " + o.Amount.String() + " USD. Or open fallback.url."
	return s.terms(payableTerms{terms, how})
}

// sponsorPage is GET /v1/sponsor for browsers.
func (s *Server) sponsorPage(r *http.Request) *response {
	f, live := s.frame(r, offer.PathSponsor), s.live.Load()
	return live.page(f, func() *response {
		content := struct {
			URL, Header string
			Takes       []*offer.USDC
		}{URL: s.Offer.URL(offer.PathSponsor), Header: x402.HeaderSignature}
		if len(s.Payments.Accepts()) > 0 {
			content.Takes = s.Offer.USDC()
		}
		title := f.Language.Text("sponsor.title", "amount", s.Offer.Amount) + ": " + s.Offer.Name
		return s.compressiblePage(cacheDocument, page.Sponsor.Render(f, title, content))
	})
}

// postSponsor is POST /v1/sponsor: the quote for a request without a payment, else the
// outcome of its payment. Only its 402s challenge, because clients send credentials here.
func (s *Server) postSponsor() http.Handler {
	quoted := discardBody(func(s *Server, _ *http.Request) *response { return s.currentQuote().challenging })(s)
	paid := reportWritten(discardBody((*Server).sponsor))(s)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.pays(r.Header) {
			paid.ServeHTTP(w, r)
		} else {
			quoted.ServeHTTP(w, r)
		}
	})
}

// sponsor is the outcome of the payment in a request.
func (s *Server) sponsor(r *http.Request) *response {
	credential, wrong := s.Challenges.FromHeader(r.Header)
	payload, present, err := x402.PayloadFromHeader(r.Header)
	switch {
	case present && (credential != nil || wrong != nil):
		return s.problem(problemMalformed, "The request has both an x402 payment and a Payment credential, so neither was sent. Send only one of them.")
	case credential != nil || wrong != nil:
		return s.payByCredential(r, credential, wrong)
	case !present:
		return s.currentQuote().challenging
	case err != nil:
		return s.outcome(x402.Outcome{Status: x402.Malformed, Detail: err.Error()})
	}
	return s.challenge(s.outcome(s.Payments.Pay(r.Context(), x402.Attempt{Payload: payload, Client: s.ClientIP(r)})))
}

// outcome is the response to a payment attempt. Only a definite refusal is a 402, because
// clients answer a 402 with a new signature.
func (s *Server) outcome(o x402.Outcome) *response {
	const again = "Send the same payment again after the time in Retry-After; do not sign a new one."
	switch o.Status {
	case x402.Settled:
		return s.settled(o, paymentResponse(o)...)
	case x402.Refused:
		reason := o.Reason
		if o.Detail != "" {
			reason += ": " + o.Detail
		}
		return s.paymentRequired(s.Payments.Refusal(reason), paymentResponse(o)...)
	case x402.Malformed:
		return s.failed(problemMalformed, o,
			"The payment was not sent. Send the header "+x402.HeaderSignature+" with the base64 of a PaymentPayload for this quote.")
	case x402.Conflict:
		return s.failed(problemConflict, o, "")
	case x402.Limited:
		return s.failed(problemTooManyTries, o, again)
	case x402.Unavailable:
		return s.failed(problemSettlement, o, again)
	default:
		// Open. Any status unknown to this function is treated as open too.
		return s.failed(problemOpen, o, "You may have been charged. "+again)
	}
}

// paid is the body of a settled payment.
type paid struct {
	Success       bool      `json:"success"`
	Status        string    `json:"status" jsonschema:"seen: read on the chain. claimed: reported by the facilitator and not verified."`
	Offer         string    `json:"offer"`
	AmountUSD     offer.USD `json:"amountUsd"`
	Currency      string    `json:"currency"`
	Network       string    `json:"network" jsonschema:"The chain, named as in the x402 version of the payment."`
	Transaction   string    `json:"transaction" jsonschema:"The transaction's hash."`
	Payer         string    `json:"payer"`
	Authorization string    `json:"authorization" jsonschema:"The nonce of the authorization that was charged."`
	ReceiptURL    string    `json:"receiptUrl,omitempty" jsonschema:"The page of the receipt, a secret of the payer. Absent if anyone could have sent this payment again."`
	Description   string    `json:"description" jsonschema:"What the response means."`
}

func (s *Server) settled(o x402.Outcome, headers ...header) *response {
	settlement := o.Response
	if settlement == nil {
		settlement = new(x402.SettleResponse)
	}
	description, address := "It counts as received once receiptUrl shows it confirmed.", s.PaidURL(o)
	if address == "" {
		description = "Only the response to its first request has the address of its receipt. If you lost that response, ask the seller."
	}
	body := paid{
		Success: true, Status: o.Evidence, Offer: s.Offer.ID, AmountUSD: o.AmountUSD, Currency: "USD",
		Network: settlement.Network, Transaction: settlement.Transaction, Payer: settlement.Payer, Authorization: o.Intent,
		ReceiptURL:  address,
		Description: strings.TrimSpace(o.Detail + " The payment was accepted. " + description),
	}
	return s.json(http.StatusOK, "private, no-store", body, headers...)
}

// paymentResponse is the settlement header in the x402 version of the attempt.
func paymentResponse(o x402.Outcome) []header {
	if o.Response == nil {
		return nil
	}
	name := x402.HeaderResponse
	if o.Version == 1 {
		name = x402.HeaderResponseV1
	}
	return []header{{http.CanonicalHeaderKey(name), x402.EncodeHeader(o.Response)}}
}

// failed is a problem with the outcome's detail and then the remedy.
func (s *Server) failed(kind problemKind, o x402.Outcome, remedy string) *response {
	var headers []header
	if kind.status == http.StatusServiceUnavailable || kind.status == http.StatusTooManyRequests {
		headers = append(headers, retryAfter(o.RetryAfter))
	}
	if o.Detail != "" {
		remedy = strings.TrimSpace(sentence(o.Detail) + " " + remedy)
	}
	return s.explain(kind, offer.Literal(remedy), problem{Reason: o.Reason, Intent: o.Intent, ReceiptURL: s.PaidURL(o)}, headers...)
}

// reportWritten reports to the payments whether a response that names a charge was written
// completely.
func reportWritten(next func(*Server) http.Handler) func(*Server) http.Handler {
	return func(s *Server) http.Handler {
		next := next(s)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ctx, whole := x402.TrackResponse(r.Context()), false
			defer func() { x402.EndResponse(ctx, whole) }()
			next.ServeHTTP(w, r.WithContext(ctx))
			if !x402.AwaitsResponse(ctx) {
				return
			}
			err := http.NewResponseController(w).Flush()
			whole = err == nil || errors.Is(err, http.ErrNotSupported)
		})
	}
}
