package web

import (
	"errors"
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Header names of the Payment scheme in the form under which net/http keeps them.
var (
	headerChallenge = http.CanonicalHeaderKey(mpp.HeaderChallenge)
	headerReceipt   = http.CanonicalHeaderKey(mpp.HeaderReceipt)
)

// challenged is a 402 that challenges its client by the Payment scheme too; any other
// response stays as it is.
func (s *Server) challenged(res *response) *response {
	if s.Challenges == nil || res.status != http.StatusPaymentRequired {
		return res
	}
	challenging := *res
	challenging.challenges = s.Challenges.AppendHeader
	return &challenging
}

// authorized is the outcome of a credential, or why it cannot be read.
func (s *Server) authorized(r *http.Request, credential *mpp.Credential, wrong error) *response {
	if problem, ok := errors.AsType[*mpp.Problem](wrong); ok {
		return s.unauthorized(problem)
	}
	if wrong != nil {
		return s.problem(problemMalformed, sentence(wrong.Error()))
	}
	outcome := s.Payments.Pay(r.Context(), credential.Attempt(s.ClientIP(r)))
	if problem := credential.Problem(outcome); problem != nil {
		return s.unauthorized(problem)
	}
	if outcome.Status == x402.Settled {
		return s.settled(outcome, header{headerReceipt, credential.Receipt(outcome).Header()})
	}
	return s.outcome(outcome)
}

// refusedCredential is the problem of a credential, and the card checkout for a
// client that cannot pay by it.
type refusedCredential struct {
	*mpp.Problem
	Fallback offer.Fallback `json:"fallback"`
}

// unauthorized answers a credential that was not taken. Where another one may be, it
// is a 402 with all terms.
func (s *Server) unauthorized(problem *mpp.Problem) *response {
	var headers []header
	if quote := s.Payments.Refusal(problem.Detail); problem.Status == http.StatusPaymentRequired {
		headers = append(headers, header{headerRequired, quote.Header})
	}
	body := encode(refusedCredential{problem, s.Offer.Card.Fallback()})
	return s.challenged(s.render(problem.Status, typeProblem, cacheNever, body, headers...))
}
