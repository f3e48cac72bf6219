package web

import (
	"errors"
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Header names of the Payment scheme as net/http stores them.
var (
	headerChallenge = http.CanonicalHeaderKey(mpp.HeaderChallenge)
	headerReceipt   = http.CanonicalHeaderKey(mpp.HeaderReceipt)
)

// challenge adds challenges of the Payment scheme to a 402. Other responses stay unchanged.
func (s *Server) challenge(res *response) *response {
	if s.Challenges == nil || res.status != http.StatusPaymentRequired {
		return res
	}
	challenging := *res
	challenging.challenges = s.Challenges.AppendHeader
	return &challenging
}

// payByCredential is the response to a credential of the Payment scheme, or to an invalid one.
func (s *Server) payByCredential(r *http.Request, credential *mpp.Credential, wrong error) *response {
	if problem, ok := errors.AsType[*mpp.Problem](wrong); ok {
		return s.refuseCredential(problem)
	}
	if wrong != nil {
		return s.problem(problemMalformed, sentence(wrong.Error()))
	}
	outcome := s.Payments.Pay(r.Context(), credential.Attempt(s.ClientIP(r)))
	if problem := credential.Problem(outcome); problem != nil {
		return s.refuseCredential(problem)
	}
	if outcome.Status == x402.Settled {
		return s.settled(outcome, header{headerReceipt, credential.Receipt(outcome).Header()})
	}
	return s.outcome(outcome)
}

// refuseCredential answers a credential that was not accepted. If another one can be, it is
// a 402 with all terms.
func (s *Server) refuseCredential(refused *mpp.Problem) *response {
	fallback := s.Offer.Card.Fallback()
	body := encode(problem{
		Type: refused.Type, Title: refused.Title, Status: refused.Status, Detail: refused.Detail, ChallengeID: refused.ChallengeID, Fallback: &fallback,
	})
	res := s.render(refused.Status, typeProblem, cacheNever, body)
	if refused.Status == http.StatusPaymentRequired {
		res = s.challenge(res.withQuote(s.Payments.Refusal(refused.Detail)))
	}
	return res
}
