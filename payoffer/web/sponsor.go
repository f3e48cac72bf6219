package web

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
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
		Offer       string    `json:"offer" jsonschema:"The id of the offer."`
		Description string    `json:"description" jsonschema:"What is paid for."`
		How         string    `json:"howToPay" jsonschema:"How to pay."`
		Method      string    `json:"method" jsonschema:"The method of the paid request."`
		URL         string    `json:"url" jsonschema:"The payable URL."`
		AmountUSD   offer.USD `json:"amountUsd"`
		Currency    string    `json:"currency" jsonschema:"The currency of the price."`
		Invoice     string    `json:"invoice" jsonschema:"Every payment method."`
	}
)

// sponsorTerms is GET /v1/sponsor. A client that sends a payment to it gets 402, because it may take a 200 for a receipt.
func (s *Server) sponsorTerms() http.Handler {
	terms := negotiate(variant{asksJSON, renderOnce(s.howToSponsor)}, variant{asksHTML, responseFunc(s.sponsorPage)})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.pays(r.Header) {
			s.postQuote(r).ServeHTTP(w, r)
		} else {
			terms.ServeHTTP(w, r)
		}
	})
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
			content.Takes = slices.DeleteFunc(s.Offer.USDC(), func(u *offer.USDC) bool { return !live.now.Takes(u.Network.CAIP2()) })
		}
		title := f.Language.Text("sponsor.title", "amount", s.Offer.Amount) + ": " + f.Offer.Name
		return s.compressiblePage(cacheLive, page.Sponsor.Render(f, title, content))
	})
}

// postSponsor is POST /v1/sponsor: the quote for a request without a payment, else the
// outcome of its payment. Only its 402s challenge, because clients send credentials here.
func (s *Server) postSponsor() http.Handler {
	quoted := discardBody(func(s *Server, _ *http.Request) *response { return s.currentQuote().challenging })(s)
	paid := discardBody((*Server).sponsor)(s)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.pays(r.Header) {
			paid.ServeHTTP(w, r)
		} else {
			quoted.ServeHTTP(w, r)
		}
	})
}

// till takes payments at one URL: it has the quotes and the challenges of that URL.
type till struct {
	responder
	*Server
	refusal    func(reason string) *x402.Quote
	challenges *mpp.Issuer
}

// till is that of POST /v1/sponsor.
func (s *Server) till() till { return till{s.responder, s, s.Payments.Refusal, s.Challenges} }

// sponsor is the outcome of the payment in a request.
func (s *Server) sponsor(r *http.Request) *response {
	t := s.till()
	attempt, credential, failed := t.attempt(r.Header, s.ClientIP(r))
	if failed != nil {
		return failed
	}
	attempt.Response = new(x402.Response)
	o := s.Payments.Pay(r.Context(), attempt)
	confirmation, res := t.answer(o, credential)
	if res == nil {
		res = s.settled(o, confirmation)
	}
	own := *res // others share it
	own.paid = attempt.Response
	return &own
}

// answer is the header that confirms a settled payment, or the response to another outcome.
// credential is nil if the attempt was not one of the Payment scheme.
func (t till) answer(o x402.Outcome, credential *mpp.Credential) (confirmation header, failed *response) {
	if credential == nil {
		if o.Status == x402.Settled {
			return paymentResponse(o), nil
		}
		return header{}, t.challenge(t.outcome(o))
	}
	if problem := credential.Problem(o); problem != nil {
		return header{}, t.refuseCredential(problem)
	}
	if o.Status == x402.Settled {
		return header{headerReceipt, credential.Receipt(o).Header()}, nil
	}
	return header{}, t.outcome(o)
}

// attempt reads the payment in the headers of a request: x402, or a credential of the
// Payment scheme.
func (t till) attempt(h http.Header, client string) (a x402.Attempt, credential *mpp.Credential, failed *response) {
	credential, wrong := t.challenges.FromHeader(h)
	payload, present, err := x402.PayloadFromHeader(h)
	switch {
	case present && (credential != nil || wrong != nil):
		return a, nil, t.problem(problemMalformed, "The request has both an x402 payment and a Payment credential, so neither was sent. Send only one of them.")
	case wrong != nil:
		if problem, ok := errors.AsType[*mpp.Problem](wrong); ok {
			return a, nil, t.refuseCredential(problem)
		}
		return a, nil, t.problem(problemMalformed, sentence(wrong.Error()))
	case credential != nil:
		return credential.Attempt(client), credential, nil
	case err != nil:
		return a, nil, t.challenge(t.outcome(x402.Outcome{Status: x402.Malformed, Detail: err.Error()}))
	}
	return x402.Attempt{Payload: payload, Client: client}, nil, nil
}

// outcome is the response to an attempt that settled nothing. Only a definite refusal is a 402, because
// clients answer a 402 with a new signature.
func (t till) outcome(o x402.Outcome) *response {
	const again = "Send the same payment again after the time in Retry-After; do not sign a new one."
	switch o.Status {
	case x402.Refused:
		reason := o.Reason
		if o.Detail != "" {
			reason += ": " + o.Detail
		}
		return t.paymentRequired(t.refusal(reason), paymentResponse(o))
	case x402.Malformed:
		return t.failed(problemMalformed, o,
			"The payment was not sent. Send the header "+x402.HeaderSignature+" with the base64 of a PaymentPayload for this quote.")
	case x402.Conflict:
		return t.failed(problemConflict, o, "")
	case x402.Limited:
		return t.failed(problemTooManyTries, o, again)
	case x402.Unavailable:
		return t.failed(problemSettlement, o, again)
	default:
		// Open. Any status unknown to this function is treated as open too.
		return t.failed(problemOpen, o, "You may have been charged. "+again)
	}
}

// paid is the body of a settled payment.
type paid struct {
	Success       bool      `json:"success" jsonschema:"true: the payment was charged."`
	Status        string    `json:"status" jsonschema:"seen: on the chain, but not yet in a final block. claimed: reported by the facilitator and not verified."`
	Offer         string    `json:"offer" jsonschema:"The id of the offer."`
	AmountUSD     offer.USD `json:"amountUsd"`
	Currency      string    `json:"currency" jsonschema:"The currency of amountUsd."`
	Network       string    `json:"network" jsonschema:"The chain, named as in the x402 version of the payment."`
	Transaction   string    `json:"transaction" jsonschema:"The transaction's hash."`
	Payer         string    `json:"payer" jsonschema:"The address of the payer."`
	Authorization string    `json:"authorization" jsonschema:"The nonce of the authorization that was charged."`
	ReceiptURL    string    `json:"receiptUrl,omitempty" jsonschema:"The page of the receipt, a secret of the payer. Absent if anyone could have sent this payment again."`
	Access        *entrance `json:"access,omitempty" jsonschema:"What the payment opens; absent without a gate."`
	Description   string    `json:"description" jsonschema:"What the response means."`
}

// entrance is where a payer enters a gated site.
type entrance struct {
	URL string `json:"url" jsonschema:"Leads a browser into the gated site, a secret of the payer."`
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
		ReceiptURL: address, Access: s.entrance(address),
		Description: strings.TrimSpace(o.Detail + " The payment was accepted. " + description),
	}
	return s.json(http.StatusOK, "private, no-store", body, headers...)
}

// paymentResponse is the settlement header in the x402 version of the attempt; without a
// name if there is none.
func paymentResponse(o x402.Outcome) header {
	if o.Response == nil {
		return header{}
	}
	name := x402.HeaderResponse
	if o.Version == 1 {
		name = x402.HeaderResponseV1
	}
	return header{http.CanonicalHeaderKey(name), x402.EncodeHeader(o.Response)}
}

// failed is a problem with the outcome's detail and then the remedy.
func (t till) failed(kind problemKind, o x402.Outcome, remedy string) *response {
	var headers []header
	if kind.status == http.StatusServiceUnavailable || kind.status == http.StatusTooManyRequests {
		headers = append(headers, retryAfter(o.RetryAfter))
	}
	if o.Detail != "" {
		remedy = strings.TrimSpace(sentence(o.Detail) + " " + remedy)
	}
	return t.explain(kind, offer.Literal(remedy), problem{Reason: o.Reason, Intent: o.Intent, ReceiptURL: t.PaidURL(o)}, headers...)
}
