package evm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// A second endpoint can contradict. It holds up no payment while it is dead.
func TestADeadEndpointIsReportedAndNotWaitedFor(t *testing.T) {
	t.Parallel()
	const dead = "unreachable (two.example)"
	// pay is a payment at a time, and a look at it.
	pay := func(s *till, minutes time.Duration) *transaction {
		s.now += minutes * time.Minute
		payment := s.chain.pay(price)
		s.requireError(dead, false)
		return payment
	}
	for name, test := range map[string]func(t *testing.T, s *till){
		"the second is dead from the start": func(_ *testing.T, s *till) {
			s.nodes[1].answer("*", fault{})
			s.requireError(dead, false)
			s.requireStatus(ledger.StatusConfirmed, pay(s, 0))
		},
		"the second dies later": func(_ *testing.T, s *till) {
			s.round()
			s.nodes[1].answer("*", fault{})
			s.requireError(dead, false)
			payment := pay(s, 9)
			s.requireStatus(ledger.StatusSeen, payment)
			s.requireStatus(ledger.StatusConfirmed, pay(s, 2))
			s.requireStatus(ledger.StatusConfirmed, payment)
		},
		"the second comes back and contradicts": func(_ *testing.T, s *till) {
			s.nodes[1].answer("*", fault{})
			s.requireError(dead, false)
			s.requireStatus(ledger.StatusConfirmed, pay(s, 1))
			hidden := s.chain.pay(price)
			s.nodes[1].honest()
			s.nodes[1].hide(hidden)
			s.now += time.Minute
			s.requireError(disagree, false)
			s.requireStatus(ledger.StatusSeen, hidden)
			s.nodes[1].answer("*", fault{})
			s.requireStatus(ledger.StatusSeen, pay(s, 1)) // it is waited for again
			s.nodes[1].honest()
			s.now += time.Minute
			s.settle()
			s.requireStatus(ledger.StatusConfirmed, hidden)
		},
		"both are dead": func(t *testing.T, s *till) {
			s.round()
			s.chain.pay(price)
			for _, n := range s.nodes {
				n.answer("*", fault{})
			}
			for range 3 {
				s.requireError("unreachable (one.example)", true)
				s.now += 6 * time.Minute
			}
			require.Empty(t, s.rows())
			_, err := s.Read(t.Context(), s.chain.authorize())
			require.Error(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t, 2))
		})
	}
}

// A payer is served while the second endpoint is dead: what one shows of the authorization is enough.
func TestAnAuthorizationIsReadWithoutADeadEndpoint(t *testing.T) {
	s := openBeside(t, 2)
	s.nodes[1].answer("*", fault{})
	s.requireError("unreachable (two.example)", false)
	key := s.chain.authorize()
	s.reading(key)
	tx := s.use(key)
	_, found, err := s.Prove(t.Context(), key, tx.hash.Hex())
	require.NoError(t, err)
	require.True(t, found)
}
