package web

import (
	"errors"
	"io"
	"net/http"
	"os"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// maxBody is the largest request body in bytes.
const maxBody = 64 << 10

// Header names as net/http stores them.
var (
	headerRequired    = http.CanonicalHeaderKey(x402.HeaderRequired)
	headerSignature   = http.CanonicalHeaderKey(x402.HeaderSignature)
	headerSignatureV1 = http.CanonicalHeaderKey(x402.HeaderSignatureV1)
)

// quoteResponses are the responses with one quote. One of them also challenges by the
// Payment scheme.
type quoteResponses struct {
	quote              *x402.Quote
	plain, challenging *response
}

// currentQuote is the responses to a request without payment, rendered again when the quote changes.
func (s *Server) currentQuote() *quoteResponses {
	quote := s.Payments.Quote()
	if current := s.quote.Load(); current != nil && current.quote == quote {
		return current
	}
	plain := s.till().paymentRequired(quote)
	current := &quoteResponses{quote, plain, s.till().challenge(plain)}
	s.quote.Store(current)
	return current
}

// paymentRequired is a 402: x402 version 2 in the header, version 1 and the card checkout in the body.
func (t till) paymentRequired(q *x402.Quote, headers ...header) *response {
	if t.Offer.Demo {
		headers = append(headers, header{offer.HeaderDemo, "1"})
	}
	return t.render(http.StatusPaymentRequired, typeJSON, cacheNever, q.Body, append(headers, varyAccept)...).withQuote(q)
}

// withQuote adds PAYMENT-REQUIRED to a response.
func (res *response) withQuote(q *x402.Quote) *response {
	if q.HeaderStart != "" {
		res.required = q.Header
	}
	return res
}

// getQuote is GET /v1/offer: the card checkout for a browser, else 402.
func (s *Server) getQuote() http.Handler {
	return negotiate(
		variant{asksJSON, responseFunc(s.postQuote)},
		variant{asksHTML, renderOnce(func() *response { return s.redirect(s.Offer.Card.URL, varyAccept) })})
}

// postQuote always answers 402 and ignores a payment.
func (s *Server) postQuote(r *http.Request) *response {
	if s.pays(r.Header) {
		return s.till().paymentRequired(s.Payments.Refusal("this address only quotes, so the payment was not sent; send it again to POST " +
			s.Offer.URL(offer.PathSponsor)))
	}
	return s.currentQuote().plain
}

// pays reports whether a request has a payment of any kind, valid or not.
func (s *Server) pays(h http.Header) bool {
	return len(h[headerSignature]) > 0 || len(h[headerSignatureV1]) > 0 || s.Challenges.HasCredential(h)
}

// discardBody reads and drops the body, so that the connection can be reused. It answers 413
// if the body is too large.
func discardBody(next func(*Server, *http.Request) *response) func(*Server) http.Handler {
	return func(s *Server) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var err error
			if r.ContentLength != 0 {
				_, err = io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBody))
			}
			var res *response
			switch _, tooMuch := errors.AsType[*http.MaxBytesError](err); {
			case tooMuch:
				res = s.refuse(problemTooLarge, "detail", nil)
			case errors.Is(err, os.ErrDeadlineExceeded):
				res = s.refuse(problemSlow, "detail", nil)
			case err != nil:
				res = s.refuse(problemBody, "detail", nil)
			default:
				res = next(s, r)
			}
			res.ServeHTTP(w, r)
		})
	}
}
