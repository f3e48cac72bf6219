package operator

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

func TestAFalseClaimIsListedAndTakenBack(t *testing.T) {
	onEachLedger(t, func(t *testing.T, o *fixture) {
		claimed := func() (nonces []string) {
			for after := int64(0); ; {
				page := must(o.Claims(t.Context(), after, 1))(t)
				for _, i := range page.Intents {
					nonces = append(nonces, i.Nonce)
					require.Equal(t, "facilitator", i.Evidence)
				}
				if page.Next == nil {
					return nonces
				}
				after = *page.Next
			}
		}
		resolve := func(i ledger.Intent, transaction string) (Intent, error) {
			outcome := IntentOutcome{Network: "base", From: i.From, Nonce: i.Nonce, Outcome: "paid", Transaction: transaction, Reason: "looked up"}
			if transaction == "" {
				outcome.Outcome = "not_paid"
			}
			return o.Resolve(t.Context(), outcome)
		}
		hash := strings.ToLower(testTransaction)
		first := o.pays("0x01", unchanged)
		require.NoError(t, o.book.SettleIntent(t.Context(), first.IntentKey, hash, []byte(`{}`), ledger.EvidenceFacilitator))
		second := o.pays("0x02", func(i *ledger.Intent) { i.From = "0x2222222222222222222222222222222222222222" })
		require.NoError(t, o.book.SettleIntent(t.Context(), second.IntentKey, "0x02", []byte(`{}`), ledger.EvidenceFacilitator))
		third := o.pays("0x03", func(i *ledger.Intent) { i.From = "0x3333333333333333333333333333333333333333" })
		require.Equal(t, []string{"0x01", "0x02"}, claimed())
		_, err := resolve(third, testTransaction)
		requireRefusal(t, err, Conflict, "another payment already has this transaction")

		o.unix += 60
		row := must(resolve(first, ""))(t)
		require.Equal(t, "refused", row.State)
		require.Equal(t, timestamp(o.unix), row.UpdatedAt, "when it was said, not when it was sent")
		require.Equal(t, []string{"0x02"}, claimed())
		totals := must(o.book.Totals(t.Context(), testOffer))(t)
		require.Len(t, totals, 2, "one claim and one open payment")
		row, err = resolve(third, testTransaction)
		require.NoError(t, err, "its transaction is free")
		require.Equal(t, "settled", row.State)

		again := must(resolve(third, testTransaction))(t)
		require.Equal(t, row, again, "the same again changes nothing")
		other := "0x" + strings.Repeat("cd", 32)
		requireRefusal(t, errorOf(resolve(third, other)), Conflict, "resolve it as not_paid first")
		must(resolve(third, ""))(t)
		row, err = resolve(third, other)
		require.NoError(t, err, "what the operator called unpaid is a claim again")
		require.Equal(t, other, row.Transaction)
		require.Equal(t, []string{"0x02", "0x03"}, claimed())
	})
}

func TestAClaimIsNotTakenBackWhileSomethingElseDecides(t *testing.T) {
	o := newFixture(t)
	claim := o.pays("0x01", func(i *ledger.Intent) { i.ValidBefore = o.unix + 3600 })
	require.NoError(t, o.book.SettleIntent(t.Context(), claim.IntentKey, "0x01", nil, ledger.EvidenceFacilitator))
	outcome := IntentOutcome{Network: "base", From: testPayer, Nonce: "0x01", Outcome: "not_paid", Reason: "x"}
	requireRefusal(t, errorOf(o.Resolve(t.Context(), outcome)), Conflict, "can be settled until then")
	o.unix += 7200
	o.health = observe.Health{Rail: "usdc", Source: "chain"}
	requireRefusal(t, errorOf(o.Resolve(t.Context(), outcome)), Conflict, "for its chain, which is read automatically")
	require.NoError(t, o.book.SettleIntent(t.Context(), claim.IntentKey, "0x01", nil, ledger.EvidenceChain))
	o.health = observe.Health{Rail: "usdc", Source: "facilitator", Blind: true}
	requireRefusal(t, errorOf(o.Resolve(t.Context(), outcome)), Conflict, "for good")
}
