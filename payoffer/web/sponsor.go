package web

import (
	"encoding/json"
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// howToSponsor is GET /v1/sponsor: the terms of the quote, without a demand,
// and how to pay.
func (s *Server) howToSponsor() *answer {
	o := s.Offer
	how := "This offer takes no x402 payment. Open fallback.url, or choose another rail from invoice."
	if len(s.Payments.Accepts()) > 0 {
		how = "Send POST to url without a payment to get the quote (402), sign one of accepts, and send POST again with the payment in " +
			x402.HeaderSignature + ". First raise your client's spending limit to " + o.Amount.String() + " USD. Or open fallback.url."
	}
	body := make(map[string]json.RawMessage)
	if err := json.Unmarshal(s.Payments.Quote().Body, &body); err != nil {
		panic("web: the quote is no JSON object: " + err.Error())
	}
	for name, value := range map[string]any{
		"offer": o.ID, "description": o.Description, "howToPay": how, "method": http.MethodPost, "url": o.URL(offer.PathSponsor),
		"amountUsd": o.Amount, "currency": "USD", "invoice": o.URL(offer.PathInvoice),
	} {
		body[name] = encode(value)
	}
	return s.json(http.StatusOK, cacheDocument, body)
}

// sponsor is POST /v1/sponsor: the quote for a request without a payment, else
// the outcome of its payment.
func (s *Server) sponsor(w http.ResponseWriter, r *http.Request) {
	payload, present, err := x402.PayloadFromHeader(r.Header)
	switch {
	case !present:
		s.standing().ServeHTTP(w, r)
	case err != nil:
		s.malformed("", err.Error()).ServeHTTP(w, r)
	default:
		outcome := s.Payments.Pay(r.Context(), x402.Attempt{Payload: payload, Client: s.ClientIP(r)})
		s.outcome(outcome).ServeHTTP(w, r)
	}
}

// outcome is what a payment attempt came to as HTTP. Only a definite no is a
// 402, for a client answers a 402 by signing again.
func (s *Server) outcome(o x402.Outcome) *answer {
	switch o.Status {
	case x402.Settled:
		return s.settled(o)
	case x402.Refused:
		return s.refused(o)
	case x402.Malformed:
		return s.malformed(o.Reason, o.Detail)
	case x402.Conflict:
		return s.failed(http.StatusConflict, problemConflict, o,
			"This payload was not sent; another one before it may have been charged. Send that first one again, and sign no new one.")
	case x402.Limited:
		return s.failed(http.StatusTooManyRequests, problemTooManyTries, o,
			"Nothing was charged. Send the same payload again after the time in Retry-After.")
	case x402.Unavailable:
		return s.failed(http.StatusServiceUnavailable, problemSettlement, o,
			"Nothing was charged. Send the same payload again after the time in Retry-After.")
	default:
		// Open, and whatever is not known to be something else.
		return s.failed(http.StatusServiceUnavailable, problemOpen, o,
			"You may have been charged. Send the same payload again after the time in Retry-After; do not sign a new one.")
	}
}

// paid is the body of a settled payment.
type paid struct {
	Success bool `json:"success"`
	// Status is what stands behind it: "seen" or "claimed".
	Status      string    `json:"status"`
	Offer       string    `json:"offer"`
	AmountUSD   offer.USD `json:"amountUsd"`
	Currency    string    `json:"currency"`
	Network     string    `json:"network"`
	Transaction string    `json:"transaction"`
	Payer       string    `json:"payer"`
	ReceiptURL  string    `json:"receiptUrl"`
	Description string    `json:"description"`
}

func (s *Server) settled(o x402.Outcome) *answer {
	response := o.Response
	if response == nil {
		response = new(x402.SettleResponse)
	}
	body := paid{
		Success: true, Status: o.Evidence, Offer: s.Offer.ID, AmountUSD: o.AmountUSD, Currency: "USD",
		Network: response.Network, Transaction: response.Transaction, Payer: response.Payer,
		ReceiptURL:  s.Offer.URL(offer.PathReceived),
		Description: "The payment was taken. It counts as received once receiptUrl shows it confirmed.",
	}
	return s.json(http.StatusOK, "private, no-store", body, paymentResponse(o)...)
}

func (s *Server) refused(o x402.Outcome) *answer {
	reason := o.Reason
	if o.Detail != "" {
		reason += ": " + o.Detail
	}
	return s.paymentRequired(s.Payments.Refusal(reason), paymentResponse(o)...)
}

// paymentResponse is the settlement's header in the dialect of the attempt.
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

// malformed is a payment that cannot be read.
func (s *Server) malformed(reason, detail string) *answer {
	return s.failed(http.StatusBadRequest, problemMalformed, x402.Outcome{Reason: reason, Detail: detail},
		"Nothing was charged. Send "+x402.HeaderSignature+" as the base64 of a PaymentPayload, as the quote describes it.")
}

// failed is a problem with the outcome's own sentence before what to do.
func (s *Server) failed(status int, kind [2]string, o x402.Outcome, remedy string) *answer {
	var headers []header
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		headers = append(headers, retryAfter(o.RetryAfter))
	}
	detail := remedy
	if o.Detail != "" {
		detail = sentence(o.Detail) + " " + remedy
	}
	return s.problemOf(problem{
		Type: problemType + kind[0], Title: kind[1], Status: status, Detail: detail, Reason: o.Reason, Intent: o.Intent,
	}, headers...)
}
