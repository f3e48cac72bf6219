package web

import (
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
)

// Header names of the Payment scheme as net/http stores them.
var (
	headerChallenge = http.CanonicalHeaderKey(mpp.HeaderChallenge)
	headerReceipt   = http.CanonicalHeaderKey(mpp.HeaderReceipt)
)

// challenge adds challenges of the Payment scheme to a 402. Other responses stay unchanged.
func (t till) challenge(res *response) *response {
	if t.challenges == nil || res.status != http.StatusPaymentRequired {
		return res
	}
	challenging := *res
	challenging.challenges = t.challenges.AppendHeader
	return &challenging
}

// refuseCredential answers a credential that was not accepted. If another one can be, it is
// a 402 with all terms.
func (t till) refuseCredential(refused *mpp.Problem) *response {
	fallback := t.Offer.Card.Fallback()
	body := encode(problem{
		Type: refused.Type, Title: refused.Title, Status: refused.Status, Detail: refused.Detail, ChallengeID: refused.ChallengeID, Fallback: &fallback,
	})
	res := t.render(refused.Status, typeProblem, cacheNever, body)
	if refused.Status == http.StatusPaymentRequired {
		res = t.challenge(res.withQuote(t.refusal(refused.Detail)))
	}
	return res
}
