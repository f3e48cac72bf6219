package wallet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// idle are controls of the page before a payment, at least one of each kind.
var idle = []string{
	"https://checkout.example/pay", "ethereum:", "bitcoin:", "mailto:", "https://shop.example/tip",
	"code of usdc", "code of btc", "code of transfer", "button Copy", "button " + payWithPurse,
}

// done are the controls of the page after a payment: its receipt, the seller's site, and the question before another one.
var done = []string{"/v1/receipt", "/", "question " + once}

// controls are all controls in a tab that a person can see and use, by what they lead to, without those that say more.
// One button at most is filled in each view.
func (v *visitor) controls(t *testing.T, tab string) []string {
	t.Helper()
	var shown struct {
		All  []string
		Most int
	}
	v.do(t, "controls", options{"tab": tab}, &shown)
	require.LessOrEqual(t, shown.Most, 1, "filled buttons of one view")
	return shown.All
}

// page is the text of the page in the first tab.
func (v *visitor) page(t *testing.T) string {
	t.Helper()
	var page struct{ Text string }
	v.do(t, "text", nil, &page)
	return page.Text
}

// requireAsks requires that a page offers no second payment without a question.
func (v *visitor) requireAsks(t *testing.T, tab string) {
	t.Helper()
	all := v.controls(t, tab)
	if len(v.stored(t)) == 0 {
		return
	}
	for _, control := range all {
		require.Contains(t, []string{"/v1/receipt", "/", "button " + again, "button " + forget, "question " + once, "question " + other}, control)
	}
}

// paidOnce requires that a payment which is done leaves its receipt and a question, in every tab and after a reload.
func paidOnce(t *testing.T, m *market) {
	s := m.whole.enter(t)
	v := s.visit(t)
	v.open(t)
	v.openIn(t, "second", "/v1/pay#usdc")
	v.read(t, payWithPurse)
	require.Subset(t, v.controls(t, "first"), idle)
	const charged = "Nothing is charged before you confirm"
	require.Contains(t, v.page(t), charged)
	v.press(t, payWithPurse)
	v.read(t, seen)
	require.NotContains(t, v.page(t), charged)
	v.requireHeadings(t)
	require.Equal(t, done, v.controls(t, "first"), "in this tab")
	v.readIn(t, "second", "You paid $42", options{"idle": true})
	require.Equal(t, done, v.controls(t, "second"), "in a tab that was open")
	v.done(t, "reload", nil)
	v.read(t, "You paid $42")
	require.Equal(t, done, v.controls(t, "first"), "after a reload")
	v.openIn(t, "third", "/v1/pay") // of which the row of the card is open
	v.readIn(t, "third", "You paid $42", options{"idle": true})
	require.Equal(t, done, v.controls(t, "third"), "in a new tab")

	v.press(t, once)
	require.Contains(t, v.read(t, "You paid $42").Text, "You have already paid. Pay a second time?")
	require.Equal(t, append(done, "button "+onceYes), v.controls(t, "first"), "the question")
	v.press(t, onceYes)
	v.read(t, payWithPurse)
	require.Subset(t, v.controls(t, "first"), idle, "the question is answered")
	s.requirePaid(t, 1)
}

// openOnce requires that a payment whose outcome is unknown can be sent again, and that all else is behind a question.
func openOnce(t *testing.T, m *market) {
	s := m.whole.enter(t)
	unknown := weather{Of: "payment", Does: "answer", Status: 503, Body: `{"detail":"The outcome is not known."}`}
	open := []string{"button " + again, "question " + other}

	v := s.visit(t)
	v.open(t)
	v.openIn(t, "second", "/v1/pay#usdc")
	v.weather(t, unknown, unknown, unknown)
	v.press(t, payWithPurse)
	v.read(t, "The outcome is not known.")
	require.Equal(t, open, v.controls(t, "first"), "in this tab")
	v.readIn(t, "second", again, options{"idle": true})
	require.Equal(t, open, v.controls(t, "second"), "in a tab that was open")
	v.done(t, "reload", nil)
	v.read(t, "The outcome is not known.")
	require.Equal(t, open, v.controls(t, "first"), "after a reload")
	v.openIn(t, "third", "/v1/pay")
	v.readIn(t, "third", "The outcome is not known.", options{"idle": true})
	require.Equal(t, open, v.controls(t, "third"), "in a new tab")

	v.press(t, other)
	require.Contains(t, v.read(t, "The outcome is not known.").Text, "This payment may still be charged. Pay another way?")
	v.picture(t, "unknown")
	v.press(t, otherYes)
	answered := v.controls(t, "first")
	require.Subset(t, answered, idle[:len(idle)-1], "the question is answered")
	require.NotContains(t, answered, idle[len(idle)-1], "the wallet signs nothing beside an open payment")
	require.Equal(t, open, v.controls(t, "second"), "the question was not answered there")
	require.Len(t, v.stored(t), 1)
	v.press(t, again)
	v.read(t, seen)
	require.Equal(t, done, v.controls(t, "first"), "another question after the end")
	sent := len(v.did(t).Sent)
	require.GreaterOrEqual(t, sent, 4, "the page asks once more while the facilitator settles")
	v.same(t, sent)
	s.requirePaid(t, 1)
}
