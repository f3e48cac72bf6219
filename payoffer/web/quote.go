package web

import (
	"errors"
	"io"
	"net/http"
	"os"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// maxBody bounds a request body in bytes.
const maxBody = 64 << 10

// headerRequired is the canonical form under which net/http keeps the header.
var headerRequired = http.CanonicalHeaderKey(x402.HeaderRequired)

// standingQuote is a quote and the responses that were made of it, one of which
// challenges.
type standingQuote struct {
	quote              *x402.Quote
	plain, challenging *response
}

// standing is the 402 for a request without payment. The answer is made again
// only when the quote is another one.
func (s *Server) standing() *standingQuote {
	quote := s.Payments.Quote()
	if kept := s.quote.Load(); kept != nil && kept.quote == quote {
		return kept
	}
	made := s.newStandingQuote(quote)
	s.quote.Store(made)
	return made
}

func (s *Server) newStandingQuote(quote *x402.Quote) *standingQuote {
	plain := s.paymentRequired(quote)
	return &standingQuote{quote, plain, s.challenged(plain)}
}

// paymentRequired is a 402: version 2 of x402 in the header, version 1 and the
// card checkout in the body.
func (s *Server) paymentRequired(q *x402.Quote, headers ...header) *response {
	if q.Header != "" {
		headers = append(headers, header{headerRequired, q.Header})
	}
	if s.Offer.Demo {
		headers = append(headers, header{offer.HeaderDemo, "1"})
	}
	return s.render(http.StatusPaymentRequired, typeJSON, cacheNever, q.Body, append(headers, varyAccept)...)
}

// getQuote is GET /v1/offer: the card checkout for a browser, else 402.
func (s *Server) getQuote() http.Handler {
	return negotiate(
		variant{asksJSON, answer(s.postQuote)},
		variant{asksHTML, once(func() *response { return s.redirect(s.Offer.Card.URL, varyAccept) })})
}

// postQuote always answers 402. A payment sent here is neither read nor kept.
func (s *Server) postQuote(r *http.Request) *response {
	if s.pays(r.Header) {
		return s.paymentRequired(s.Payments.Refusal("this address only quotes, and nothing was charged here; send the payment to POST " +
			s.Offer.URL(offer.PathSponsor)))
	}
	return s.standing().plain
}

// Header names in the form under which net/http keeps them.
var (
	headerSignature   = http.CanonicalHeaderKey(x402.HeaderSignature)
	headerSignatureV1 = http.CanonicalHeaderKey(x402.HeaderSignatureV1)
)

// pays reports whether a request has a payment, of whatever kind and shape.
func (s *Server) pays(h http.Header) bool {
	return len(h[headerSignature]) > 0 || len(h[headerSignatureV1]) > 0 || s.Challenges.Answered(h)
}

// drained is a row's handler that reads the body away, so that the connection can be
// used again, and answers 413 for one that is too large.
func drained(next func(*Server, *http.Request) *response) func(*Server) http.Handler {
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
