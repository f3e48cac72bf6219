package observations

import "github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"

// Changed is a life of a payment, and what there is to tell of its last change.
type Changed struct {
	Name string // which is the payment's, too
	Life []accounting.Observation
	// Headline, Words and Why are of the last change. Quiet says that it is told in
	// the operator's own places alone.
	Headline, Words, Why string
	Quiet                bool
}

// lived names the payment in all that is said of it.
func lived(name string, quiet bool, headline, words, why string, life ...accounting.Observation) Changed {
	for i := range life {
		life[i].ExternalID = name
		if life[i].Cause == "" {
			life[i].Cause = "webhook"
		}
	}
	return Changed{name, life, headline, words, why, quiet}
}

// returns are words on what went back of a card payment.
func returns(all ...accounting.Return) accounting.Observation {
	s := Returned("", all[0])
	s.Returns = all
	return s
}

// by has another cause.
func by(cause string, s accounting.Observation) accounting.Observation {
	s.Cause = cause
	return s
}

// entry is an operator's entry of a payment by the card's rail.
func entry(cause string, revision, amount, occurred int64) accounting.Observation {
	s := by(cause, Card("", accounting.StatusConfirmed))
	s.EvidenceLevel, s.Revision, s.Amount, s.USDCents, s.OccurredAt = accounting.LevelManual, revision, amount, cents(amount), occurred
	return s
}

// word is an operator's word on what went back.
func word(cause string, r accounting.Return) accounting.Observation {
	s := by(cause, returns(r))
	s.EvidenceLevel = accounting.LevelManual
	return s
}

// with changes a observation.
func with(s accounting.Observation, change func(*accounting.Observation)) accounting.Observation {
	change(&s)
	return s
}

// Changes are all kinds of changes of a receipt.
func Changes() []Changed {
	const (
		told, read, chain = "the provider reported it", "it was read from the provider", "it was read from the chain"
		reorg             = "the chain was reorganized"
	)
	seen, confirmed, dropped, moved := accounting.StatusSeen, accounting.StatusConfirmed, accounting.StatusDropped, accounting.StatusMoved
	paid, onChain := Card("", confirmed), Chain("0xa", confirmed)
	euros := with(paid, func(s *accounting.Observation) { s.Asset, s.USDCents = "EUR", nil })
	provided := with(by("reconcile", paid), func(s *accounting.Observation) {
		s.EvidenceLevel, s.Evidence = accounting.LevelProvider, []byte(`{"session":"cs_1"}`)
	})
	refund := func(id string, amount int64, gone bool) accounting.Return {
		r := accounting.Return{ID: id, Kind: accounting.ReturnRefund, Amount: amount, Gone: gone, At: 950}
		if !gone {
			r.Rank = 1
		}
		return r
	}
	dispute := func(amount int64, gone bool) accounting.Return {
		r := refund("dp_1", amount, gone)
		r.Kind, r.Currency = accounting.ReturnReversal, "USD"
		return r
	}
	entered := entry("entered", 0, 4200, 900)
	operator := func(gone bool) accounting.Return {
		r := dispute(0, gone)
		r.ID, r.Currency = "operator", ""
		return r
	}
	return []Changed{
		// New payments.
		lived("new-seen", false, "42 USDC ($42) on its way", "new", "it was read from the chain", Chain("0xa", seen)),
		lived("new-confirmed", false, "$42 received", "new", told, paid),
		lived("new-dropped", false, "$42 did not arrive", "new", told, Card("", dropped)),
		lived("new-moved", true, "42 USDC ($42) is not a payment: it moved within your account", "new", chain, Chain("0xa", moved)),
		lived("new-entered", false, "$42 received", "new", "you entered it", entered),
		lived("new-late", false, "$42 received", "new", "it is from before the first start, and was read later", by(accounting.CauseBackfilled, paid)),
		// Payments that arrive, or do not.
		lived("arrives", false, "42 USDC ($42) received", "status from seen to confirmed", chain, Chain("0xa", seen), onChain),
		lived("fails", false, "$42 did not arrive", "status from seen to dropped", told, Card("", seen), Card("", dropped)),
		lived("seen-moved", false, "42 USDC ($42) is not a payment: it moved within your account", "status from seen to moved", chain, Chain("0xa", seen), Chain("0xa", moved)),
		lived("reorganized", false, "42 USDC ($42) is no longer confirmed, and on its way again", "status from confirmed to seen", reorg,
			onChain, by("reorg", Chain("0xa", seen))),
		lived("reorganized-away", false, "42 USDC ($42) did not arrive after all", "status from confirmed to dropped", reorg, onChain, by("reorg", Chain("0xa", dropped))),
		lived("confirmed-moved", false, "42 USDC ($42) is not a payment: it moved within your account", "status from confirmed to moved", chain, onChain, Chain("0xa", moved)),
		lived("dropped-seen", false, "42 USDC ($42) on its way after all", "status from dropped to seen", chain, Chain("0xa", dropped), Chain("0xa", seen)),
		lived("late", false, "42 USDC ($42) received after all", "status from dropped to confirmed", chain, Chain("0xa", dropped), onChain),
		lived("moved-confirmed", false, "42 USDC ($42) received after all", "status from moved to confirmed", chain, Chain("0xa", moved), onChain),
		lived("moved-dropped", true, "42 USDC ($42) did not arrive", "status from moved to dropped", reorg, Chain("0xa", moved), by("reorg", Chain("0xa", dropped))),
		lived("arrives-refunded", false, "$42 received, $10 of it refunded", "status from seen to confirmed; refunded from 0 USD to 10 USD", told,
			Card("", seen), with(paid, func(s *accounting.Observation) { s.Returns = []accounting.Return{refund("re_1", 1000, true)} })),
		// Refunds and disputes that the provider reports.
		lived("refund", false, "$10 of $42 refunded", "refunded from 0 USD to 10 USD", told, paid, returns(refund("re_1", 1000, true))),
		lived("refund-second", false, "$5 of $42 refunded, $15 in all", "refunded from 10 USD to 15 USD", told,
			paid, returns(refund("re_1", 1000, true)), returns(refund("re_2", 500, true))),
		lived("refund-rest", false, "$32 of $42 refunded, $42 in all", "status from confirmed to refunded; refunded from 10 USD to 42 USD", told,
			paid, returns(refund("re_1", 1000, true)), returns(refund("re_2", 3200, true))),
		lived("refund-all", false, "$42 refunded", "status from confirmed to refunded; refunded from 0 USD to 42 USD", told, paid, returns(refund("re_1", 4200, true))),
		lived("refund-too-much", false, "$42 refunded", "status from confirmed to refunded; refunded from 0 USD to 42 USD", told, paid, returns(refund("re_1", 9900, true))),
		lived("refund-failed", false, "$42: refund of $42 undone", "status from refunded to confirmed; refunded from 42 USD to 0 USD", told,
			paid, returns(refund("re_1", 4200, true)), returns(refund("re_1", 4200, false))),
		lived("dispute", false, "$42 disputed", "status from confirmed to reversed", told, paid, returns(dispute(0, true))),
		lived("dispute-won", false, "$42 no longer disputed", "status from reversed to confirmed", told, paid, returns(dispute(0, true)), returns(dispute(0, false))),
		lived("dispute-of-the-rest", false, "$32 of $42 disputed", "status from confirmed to reversed", told,
			paid, returns(refund("re_1", 1000, true)), returns(dispute(0, true))),
		lived("dispute-of-the-rest-won", false, "$42 no longer disputed, $10 of it refunded", "status from reversed to confirmed", told,
			paid, returns(refund("re_1", 1000, true)), returns(dispute(0, true)), returns(dispute(0, false))),
		lived("dispute-of-a-part", false, "$10 of $42 disputed", "disputed or voided from 0 USD to 10 USD", told, paid, returns(dispute(1000, true))),
		lived("dispute-of-a-part-won", false, "$42: $10 no longer disputed", "disputed or voided from 10 USD to 0 USD", told,
			paid, returns(dispute(1000, true)), returns(dispute(1000, false))),
		// Changes by the operator.
		lived("corrected", false, "Corrected: $43 instead of $42", "amount from 42 USD to 43 USD", "you entered it", entered, entry("entered", 1, 4300, 900)),
		lived("corrected-date", false, "Corrected: $42, dated 1970-01-01T00:10:00Z instead of 1970-01-01T00:15:00Z",
			"date from 1970-01-01T00:15:00Z to 1970-01-01T00:10:00Z", "you entered it", entered, entry("entered", 1, 4200, 600)),
		lived("corrected-both", false, "Corrected: $43 instead of $42", "amount from 42 USD to 43 USD; date from 1970-01-01T00:15:00Z to 1970-01-01T00:10:00Z",
			"you entered it", entered, entry("entered", 1, 4300, 600)),
		lived("corrected-in-part-refunded", false, "Corrected: $43 instead of $42, $10 of it refunded", "amount from 42 USD to 43 USD", "you entered it",
			entered, word("refunded_by_operator", refund("operator:refund:1", 1000, true)), entry("entered", 1, 4300, 900)),
		lived("corrected-to-what-was-refunded", false, "Corrected: $10 instead of $42, $10 of it refunded",
			"status from confirmed to refunded; amount from 42 USD to 10 USD", "you entered it",
			entered, word("refunded_by_operator", refund("operator:refund:1", 1000, true)), entry("entered", 1, 1000, 900)),
		lived("corrected-and-restored", false, "Corrected: $43 instead of $42, no longer voided", "status from reversed to confirmed; amount from 42 USD to 43 USD",
			"you entered it", entered, word("voided_by_operator", operator(true)),
			with(entry("entered", 1, 4300, 900), func(s *accounting.Observation) { s.Returns = []accounting.Return{operator(false)} })),
		lived("corrected-to-the-same", false, "$42: entered again without a change", "entered again without a change", "you entered it", entered, entry("entered", 1, 4200, 900)),
		lived("reversed", false, "$42 voided", "status from confirmed to reversed", "you voided it", entered, word("voided_by_operator", operator(true))),
		lived("restored", false, "$42 no longer voided", "status from reversed to confirmed", "you restored it",
			entered, word("voided_by_operator", operator(true)), word("restored_by_operator", operator(false))),
		lived("refunded", false, "$10 of $42 refunded", "refunded from 0 USD to 10 USD", "you entered a refund",
			entered, word("refunded_by_operator", refund("operator:refund:1", 1000, true))),
		lived("refund-restored", false, "$42: refund of $10 undone", "refunded from 10 USD to 0 USD", "you restored it",
			entered, word("refunded_by_operator", refund("operator:refund:1", 1000, true)), word("restored_by_operator", refund("operator:refund:1", 1000, false))),
		lived("one-of-two-restored", false, "$42: refund of $10 undone, $5 of it refunded", "refunded from 15 USD to 5 USD", "you restored it",
			entered, word("refunded_by_operator", refund("operator:refund:1", 1000, true)), word("refunded_by_operator", refund("operator:refund:2", 500, true)),
			word("restored_by_operator", refund("operator:refund:1", 1000, false))),
		lived("valued", false, "42 EUR: value 45.00 USD instead of unknown", "value from unknown to 45.00 USD", "you stated its value", euros,
			with(word("value_stated", accounting.Return{}), func(s *accounting.Observation) {
				s.Returns, s.Stated = nil, &accounting.StatedValue{USDCents: 4500, At: 950}
			})),
		lived("marked-own", false, "$42: payer from another payer to yourself", "payer from another payer to yourself", "you marked it as yours", paid,
			with(word("marked_own", accounting.Return{}), func(s *accounting.Observation) { s.Returns, s.Own = nil, true })),
		// Better evidence.
		lived("read", false, "$42: evidence from signed to provider", "evidence from signed to provider", read, paid, provided),
		lived("gives-way", false, "Corrected: $42 instead of $40", "amount from 40 USD to 42 USD; evidence from manual to signed", told,
			entry("entered", 0, 4000, 900), paid),
		lived("value-known", false, "42 USDC: value 42.00 USD instead of unknown", "value from unknown to 42.00 USD", chain,
			with(onChain, func(s *accounting.Observation) { s.USDCents = nil }), onChain),
		lived("own", false, "42 USDC ($42): payer from another payer to yourself", "payer from another payer to yourself", chain, onChain, with(onChain, func(s *accounting.Observation) { s.Own = true })),
		lived("test", false, "$42: money from real to a test network's", "money from real to a test network's", told, paid, with(paid, func(s *accounting.Observation) { s.Testnet = true })),
	}
}
