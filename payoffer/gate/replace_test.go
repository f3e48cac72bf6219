package gate

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// replace is Replace without an error.
func (w *world) replace(cookie, code string) (exchange, question string) {
	w.t.Helper()
	exchange, question, err := w.Replace(w.t.Context(), cookie, code)
	require.NoError(w.t, err)
	return exchange, question
}

// requireNoQuestion requires that a code is exchanged as it is.
func (w *world) requireNoQuestion(cookie, code, why string) {
	w.t.Helper()
	exchange, question := w.replace(cookie, code)
	require.Equal(w.t, code, exchange, why)
	require.Empty(w.t, question, why)
}

func TestReplaceAsksBeforeAnotherPaymentIsUsed(t *testing.T) {
	w := newWorld(t)
	own, foreign := w.pays("pi_1", nil), w.pays("pi_2", nil)
	require.NoError(t, w.ledger.InsertPass(t.Context(), ledger.Pass{ID: "abc", Offer: w.Offer.ID, ExpiresAt: w.now.Load() + 3600}))
	cookie := w.enters(w.Keeper, own)
	for _, code := range []string{w.Code(foreign), w.PassCode("abc")} {
		exchange, question := w.replace(cookie, code)
		require.Empty(t, exchange)
		again, _ := w.replace(cookie, question)
		require.Equal(t, code, again, "the payer agreed")
		replaced, _, err := w.Enter(t.Context(), again)
		require.NoError(t, err, "the question does not use the code")
		w.requireOpen(w.Keeper, replaced)
	}
	passed := w.enters(w.Keeper, own)
	pressed, _, err := w.Enter(t.Context(), w.PassCode("abc"))
	require.NoError(t, err)
	_, question := w.replace(pressed, w.Code(own))
	require.NotEmpty(t, question, "from a pass to a payment")
	_, question = w.replace(passed, w.PassCode("abc"))
	require.NotEmpty(t, question)
	w.requireNoQuestion(pressed, w.PassCode("abc"), "the same pass")
}

func TestReplaceAsksOnlyIfNeeded(t *testing.T) {
	w := newWorld(t)
	own, foreign := w.pays("pi_1", nil), w.pays("pi_2", nil)
	cookie := w.enters(w.Keeper, own)
	code := w.Code(foreign)
	w.requireNoQuestion(cookie, w.Code(own), "the same payment")
	w.requireNoQuestion("", code, "no cookie")
	w.requireNoQuestion(cookie+"x", code, "a forged cookie")
	w.requireNoQuestion(code, code, "a code is no cookie")
	w.requireNoQuestion(w.instance("other.example.org").seal(useCookie, own.Account, own.Name, "0", "b"), code, "of another offer")
	w.requireNoQuestion(cookie, code+"x", "a forged code")
	w.requireNoQuestion(cookie, cookie, "a cookie is no code")
	w.pass(codeLifetime + time.Second)
	w.requireNoQuestion(cookie, code, "a late code")

	w.pass(day)
	_, question := w.replace(cookie, w.Code(foreign))
	require.NotEmpty(t, question, "another gate is open for longer than this one")
	require.NoError(t, w.End(t.Context(), own))
	w.requireNoQuestion(cookie, w.Code(foreign), "it was signed out")
	cookie = w.enters(w.Keeper, own)
	w.pass(access)
	w.requireNoQuestion(cookie, w.Code(foreign), "its access has ended")
}

// A link with an answer that another browser got replaces nothing and asks nothing: the link is refused.
func TestReplaceAnswerBelongsToOneBrowser(t *testing.T) {
	w := newWorld(t)
	own, foreign := w.pays("pi_1", nil), w.pays("pi_2", nil)
	victim, attacker := w.enters(w.Keeper, own), w.enters(w.Keeper, own)
	_, answer := w.replace(attacker, w.Code(foreign))
	for _, cookie := range []string{victim, "", attacker + "x", w.enters(w.Keeper, foreign)} {
		exchange, question := w.replace(cookie, answer)
		require.Empty(t, exchange)
		require.Empty(t, question)
	}
	w.requireRefused(w.Keeper, answer, "an answer is no code")
	w.requireRefused(w.Keeper, "", "nor is nothing")
	w.requireClosed(w.Keeper, answer)
	other := w.instance("other.example.org").seal(useReplace, w.Code(foreign), strings.Repeat("b", 26))
	w.requireNoQuestion(victim, other, "an answer of another offer is no code")
}

// While it is unknown whether the cookie is valid, it is not replaced.
func TestReplaceWaitsForLedger(t *testing.T) {
	w := newWorld(t)
	own, foreign := w.pays("pi_1", nil), w.pays("pi_2", nil)
	cookie, code := w.enters(w.Keeper, own), w.Code(foreign)
	w.ledger.away.Store(true)
	_, _, err := w.Replace(t.Context(), cookie, code)
	require.ErrorIs(t, err, ErrUnreadable)
	w.requireNoQuestion("", code, "without a cookie there is nothing to ask about")
	w.ledger.away.Store(false)
	w.Key = func() []byte { return nil }
	exchange, question := w.replace(cookie, code)
	require.Empty(t, question)
	_, _, err = w.Enter(t.Context(), exchange)
	require.ErrorIs(t, err, ErrUnreadable)
}
