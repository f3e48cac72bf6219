package operator

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	testPayer       = "0x1111111111111111111111111111111111111111"
	testTransaction = "0xABababababababababababababababababababababababababababababababab"
)

// pays puts an x402 payment of unknown outcome into the ledger.
func (f *fixture) pays(nonce string, change func(*ledger.Intent)) ledger.Intent {
	f.t.Helper()
	account := f.account("usdc")
	cents := int64(4200)
	i := ledger.Intent{
		IntentKey: ledger.IntentKey{
			Network: "eip155:8453", Asset: f.Offer.USDC()[0].Network.USDC, From: testPayer, Nonce: nonce,
		},
		Offer: testOffer, Account: account.ID, Amount: 42_000_000, USDCents: &cents, Fingerprint: nonce, Version: 2,
		Payload: []byte(`{}`), Requirement: []byte(`{}`), ValidBefore: f.unix - 3600,
		Progress: ledger.Progress{Facilitator: "gone.example", Reason: "timeout"},
	}
	change(&i)
	require.NoError(f.t, f.book.InsertIntent(f.t.Context(), i))
	return i
}

func (f *fixture) apply(key ledger.IntentKey, event accounting.Event, transaction string) {
	f.t.Helper()
	_, err := f.book.Apply(f.t.Context(), key, ledger.IntentChange{Event: event, Transaction: transaction})
	require.NoError(f.t, err)
}

func (f *fixture) stored(key ledger.IntentKey) ledger.Intent {
	f.t.Helper()
	i, found, err := f.book.Intent(f.t.Context(), key)
	require.NoError(f.t, err)
	require.True(f.t, found)
	return i
}

func unchanged(*ledger.Intent) {}

func TestIntentsListOpenPayments(t *testing.T) {
	o := newFixture(t)
	o.pays("0x01", unchanged)
	o.pays("0x02", func(i *ledger.Intent) {
		i.From, i.ValidBefore = "0x2222222222222222222222222222222222222222", o.unix+3600
	})
	first := must(o.Intents(t.Context(), 0, 1))(t)
	require.Len(t, first.Intents, 1)
	row := first.Intents[0]
	require.Equal(t, testPayer, row.From)
	require.Equal(t, "0x01", row.Nonce)
	require.Equal(t, "settling", row.State)
	require.Equal(t, "timeout", row.Reason)
	require.Equal(t, "gone.example", row.Facilitator)
	require.Equal(t, "42", row.AmountUSD.String())
	require.Contains(t, row.Waiting, "operator")
	require.Equal(t, &row.Number, first.Next)

	second := must(o.Intents(t.Context(), *first.Next, 1))(t)
	require.Len(t, second.Intents, 1)
	require.Contains(t, second.Intents[0].Waiting, "can be settled until then")
	require.Nil(t, second.Next)
}

func TestOperatorResolvesOpenPayment(t *testing.T) {
	o := newFixture(t)
	resolve := func(nonce, outcome, transaction string) (Intent, error) {
		return o.Resolve(t.Context(), IntentOutcome{
			Network: "base", From: "0x" + strings.ToUpper(testPayer[2:]), Nonce: nonce, Outcome: outcome,
			Transaction: transaction, Reason: "looked up at the explorer",
		})
	}
	unpaid := o.pays("0x01", unchanged)
	row := must(resolve("0x01", "not_paid", ""))(t)
	require.Equal(t, "refused", row.State)
	stored := o.stored(unpaid.IntentKey)
	require.Equal(t, ledger.IntentRefused, stored.State)
	require.Equal(t, "operator_not_paid", stored.Reason, "the payer reads a code and not the operator's words")
	again := must(resolve("0x01", "not_paid", ""))(t)
	require.Equal(t, row, again, "the same again changes nothing")
	decided := o.pays("0x09", func(i *ledger.Intent) { i.From = "0x2222222222222222222222222222222222222222" })
	o.apply(decided.IntentKey, accounting.EventDead, "")
	for _, outcome := range []string{"paid", "not_paid"} {
		c := IntentOutcome{Network: "base", From: decided.From, Nonce: "0x09", Outcome: outcome, Reason: "x"}
		if outcome == "paid" {
			c.Transaction = testTransaction
		}
		_, err := o.Resolve(t.Context(), c)
		requireRefusal(t, err, Conflict, "for good") // what another source decided stays
	}

	paid := o.pays("0x02", unchanged)
	row = must(resolve("0x02", "paid", testTransaction))(t)
	require.Equal(t, "settled", row.State)
	stored = o.stored(paid.IntentKey)
	require.Equal(t, ledger.IntentSettled, stored.State)
	require.Equal(t, ledger.EvidenceFacilitator, stored.Evidence, "a claim, counted in no sum")
	require.Equal(t, strings.ToLower(testTransaction), stored.Transaction)
	require.Zero(t, o.received())
	require.Contains(t, o.log.String(), "looked up at the explorer")
}

func TestResolveErrors(t *testing.T) {
	o := newFixture(t)
	valid := o.pays("0x01", func(i *ledger.Intent) { i.ValidBefore = o.unix })
	leased := o.pays("0x02", func(i *ledger.Intent) {
		i.From, i.Owner, i.LeaseUntil = "0x22", "another", o.unix+60
	})
	require.NoError(t, o.book.Register(t.Context(), ledger.Account{Offer: "another", ID: "elsewhere", Rail: "usdc"}))
	elsewhere := o.pays("0x03", func(i *ledger.Intent) { i.From, i.Offer, i.Account = "0x33", "another", "elsewhere" })
	for name, c := range map[string]struct {
		change func(*IntentOutcome)
		kind   Kind
		want   string
	}{
		"while it can be settled": {func(*IntentOutcome) {}, Conflict, "can be settled until then"},
		"while it is tried":       {func(r *IntentOutcome) { r.From, r.Nonce = "0x22", "0x02" }, Conflict, "running attempt"},
		"of an unknown payment":   {func(r *IntentOutcome) { r.Nonce = "0x09" }, Unknown, "no payment"},
		"of another offer":        {func(r *IntentOutcome) { r.From, r.Nonce = "0x33", "0x03" }, Unknown, "no payment"},
		"of an unknown network":   {func(r *IntentOutcome) { r.Network = "moon" }, Invalid, "unknown network"},
		"without a nonce":         {func(r *IntentOutcome) { r.Nonce = "" }, Invalid, "nonce is missing"},
		"without a reason":        {func(r *IntentOutcome) { r.Reason = "" }, Invalid, "reason is missing"},
		"without an outcome":      {func(r *IntentOutcome) { r.Outcome = "perhaps" }, Invalid, "paid or not_paid"},
		"paid by nothing":         {func(r *IntentOutcome) { r.Outcome = "paid" }, Invalid, "64 hexadecimal digits"},
		"paid by the zero hash": {func(r *IntentOutcome) {
			r.Outcome, r.Transaction = "paid", "0x"+strings.Repeat("0", 64)
		}, Invalid, "64 hexadecimal digits"},
		"unpaid by a transaction": {func(r *IntentOutcome) { r.Transaction = "0x1" }, Invalid, "leave the transaction out"},
	} {
		t.Run(name, func(t *testing.T) {
			outcome := IntentOutcome{Network: "base", From: testPayer, Nonce: "0x01", Outcome: "not_paid", Reason: "x"}
			c.change(&outcome)
			requireRefusal(t, errorOf(o.Resolve(t.Context(), outcome)), c.kind, c.want)
		})
	}
	for _, i := range []ledger.Intent{valid, leased, elsewhere} {
		require.Equal(t, ledger.IntentSettling, o.stored(i.IntentKey).State)
	}
}

// The clock was 40 days ahead while the payment was looked at.
func TestResolveIgnoresFutureLease(t *testing.T) {
	o := newFixture(t)
	i := o.pays("0x01", func(i *ledger.Intent) { i.Owner, i.LeaseUntil = "ahead", o.unix+40*24*60*60 })
	must(o.Resolve(t.Context(), IntentOutcome{
		Network: "base", From: testPayer, Nonce: i.Nonce, Outcome: "not_paid", Reason: "looked up at the explorer",
	}))(t)
	require.Equal(t, ledger.IntentRefused, o.stored(i.IntentKey).State)
}

func TestChainDecidesBeforeOperator(t *testing.T) {
	o := newFixture(t)
	now := o.Now()
	open := ledger.Intent{IntentKey: ledger.IntentKey{Network: "eip155:8453"}, ValidBefore: now.Add(-time.Hour).Unix()}
	for name, c := range map[string]struct {
		health observe.Health
		waits  bool
	}{
		"read":            {observe.Health{Rail: "usdc", Source: "chain"}, true},
		"read and behind": {observe.Health{Rail: "usdc", Source: "chain", Partial: true, LastError: observe.ErrLagging}, true},
		"not read yet":    {observe.Health{Rail: "usdc", Source: "chain", Blind: true}, true},
		"unreachable":     {observe.Health{Rail: "usdc", Source: "chain", Blind: true, LastError: observe.ErrUnreachable}, false},
		"not configured":  {observe.Health{Rail: "usdc", Source: "facilitator", Blind: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o.health = c.health
			for _, paid := range []bool{true, false} {
				require.Equal(t, c.waits, o.obstacle(open, paid, now) != "")
			}
		})
	}
	removed := open
	removed.Network = "eip155:84532"
	require.Contains(t, o.obstacle(removed, false, now), "add a usdc rail on eip155:84532 to the configuration")
}

func TestResolveFalseClaim(t *testing.T) {
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
		o.apply(first.IntentKey, accounting.EventClaimed, hash)
		second := o.pays("0x02", func(i *ledger.Intent) { i.From = "0x2222222222222222222222222222222222222222" })
		o.apply(second.IntentKey, accounting.EventClaimed, "0x02")
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

func TestResolveClaimErrors(t *testing.T) {
	o := newFixture(t)
	claim := o.pays("0x01", func(i *ledger.Intent) { i.ValidBefore = o.unix + 3600 })
	o.apply(claim.IntentKey, accounting.EventClaimed, "0x01")
	outcome := IntentOutcome{Network: "base", From: testPayer, Nonce: "0x01", Outcome: "not_paid", Reason: "x"}
	requireRefusal(t, errorOf(o.Resolve(t.Context(), outcome)), Conflict, "can be settled until then")
	o.unix += 7200
	o.health = observe.Health{Rail: "usdc", Source: "chain"}
	requireRefusal(t, errorOf(o.Resolve(t.Context(), outcome)), Conflict, "for its chain, which is read automatically")
	o.apply(claim.IntentKey, accounting.EventProven, "0x01")
	o.health = observe.Health{Rail: "usdc", Source: "facilitator", Blind: true}
	requireRefusal(t, errorOf(o.Resolve(t.Context(), outcome)), Conflict, "for good")
}

// A link that is sealed before the key is loaded would never open, so no pass is made then.
func TestPassNeedsLoadedKey(t *testing.T) {
	o := newFixture(t)
	o.Offer.Gates = []offer.Gate{{Start: "https://example.org/members/", Access: time.Hour}}
	var key []byte
	o.Keeper = &gate.Keeper{Offer: o.Offer, Ledger: o.book, Key: func() []byte { return key }, Now: o.Now, Memory: new(gate.Memory)}
	requireRefusal(t, errorOf(o.ChangePass(t.Context(), PassChange{Seconds: 3600})), Unavailable, "not available now")
	all := must(o.Passes(t.Context()))(t)
	require.Empty(t, all.Passes)

	key = []byte(strings.Repeat("k", 32))
	made := must(o.ChangePass(t.Context(), PassChange{Seconds: 3600, Note: "Press"}))(t)
	_, _, err := o.Keeper.Enter(t.Context(), made.URL[strings.Index(made.URL, "=")+1:])
	require.NoError(t, err)
}

func TestRevokeAndDeletePass(t *testing.T) {
	o := newFixture(t)
	o.Offer.Gates = []offer.Gate{{Start: "https://example.org/members/", Access: time.Hour}}
	o.Keeper = &gate.Keeper{Offer: o.Offer, Ledger: o.book, Key: func() []byte { return []byte(strings.Repeat("k", 32)) }, Now: o.Now, Memory: new(gate.Memory)}
	made := must(o.ChangePass(t.Context(), PassChange{Seconds: 3600, Note: "Press"}))(t)
	first := must(o.ChangePass(t.Context(), PassChange{Revoke: made.ID}))(t)
	require.Equal(t, "Press", first.Note, "the operator sees whose it was")
	o.unix += 60
	again := must(o.ChangePass(t.Context(), PassChange{Revoke: made.ID}))(t)
	require.Equal(t, first, again)
	for range 2 {
		require.Equal(t, Pass{ID: made.ID}, must(o.ChangePass(t.Context(), PassChange{Delete: made.ID}))(t))
		require.Empty(t, must(o.Passes(t.Context()))(t).Passes)
	}
}

func TestOperatorStatesUnknownValue(t *testing.T) {
	onEachLedger(t, func(t *testing.T, o *fixture) {
		must(o.book.Record(t.Context(), nil, ledger.Observation{
			Offer: testOffer, Account: o.account("card").ID, Rail: "card", ExternalID: "pi_yen", Asset: "JPY", Amount: 6300,
			State: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelSigned, OccurredAt: o.unix, Cause: "webhook",
		}))(t)
		state := func(reference string, usd json.Number) (Receipt, error) {
			return o.do("value", manual.Entry{Rail: "card", Reference: reference, Amount: usd, Reason: "rate of the bank"})
		}
		row := must(state("pi_yen", "42"))(t)
		require.Equal(t, "42 USD stated 6300 JPY", row.Value()+" "+row.ValueBasis+" "+row.Paid())
		again := must(state("pi_yen", "42"))(t)
		require.Equal(t, row.Version, again.Version, "the same again changes nothing")
		must(state("pi_yen", "41"))(t)
		page := must(o.Receipts(t.Context(), 0, 1))(t)
		var values []string
		for _, change := range page.Receipts[0].History {
			values = append(values, change.Value())
		}
		require.Equal(t, []string{"6300 JPY", "42 USD", "41 USD"}, values, "the latest holds, also within one second")

		o.sees("card", "pi_usd", ledger.LevelSigned, ledger.StatusConfirmed)
		requireRefusal(t, errorOf(state("pi_usd", "41")), Conflict, "is known: 42 US dollars")
		requireRefusal(t, errorOf(state("pi_yen", "")), Invalid, "value is missing")
		requireRefusal(t, errorOf(state("pi_none", "1")), Unknown, "no receipt")
	})
}
