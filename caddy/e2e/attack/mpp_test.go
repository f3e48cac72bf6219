package attack

import (
	"io"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/mpp"
)

// challenge asks for payment, without one, and returns the challenge for a network.
func (s *shop) challenge(network chain.Network) (found mpp.Challenge) {
	s.Helper()
	s.eventually("the shop challenges", func() bool {
		answer, err := s.client.Post(s.url+"/v1/sponsor", "", nil)
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		_, _ = io.Copy(io.Discard, answer.Body)
		found = mpp.Challenged(s, answer.Header, network)
		return found != nil
	})
	return found
}

// credential is the payment as an answer to its challenge.
func (p payment) credential() object { return p.challenge.Credential(p.Authorization, p.signature) }
