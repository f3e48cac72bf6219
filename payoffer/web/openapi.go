package web

import (
	"net/http"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// OpenAPI is the API description of an offer: its schemas are made from the Go
// types that are served. The rails named in hooks take webhooks.
func OpenAPI(o *offer.Offer, hooks ...string) document.Document {
	var types []document.Type
	add := func(name string, value any) { types = append(types, document.Type{Name: name, Value: value}) }
	add("Received", report{})
	add("RailReport", railSummary{})
	add("Sum", tally{})
	add("Receipt", receipt{})
	add("Feed", feed{})
	add("Transition", transition{})
	add("Problem", problem{})
	problems := commonProblems
	if len(o.USDC()) > 0 {
		add("Quote", x402.PaymentRequiredV1{})
		add("Terms", payableTerms{})
		add("Requirement", x402.RequirementsV1{})
		add("PaymentRequirements", x402.Requirements{})
		add("Settlement", paid{})
		problems = slices.Concat(problems, paymentProblems)
	} else {
		add("Quote", x402.CardQuote{})
		add("Terms", cardTerms{})
	}
	if len(hooks) > 0 {
		add("Delivery", delivered{})
		problems = slices.Concat(problems, hookProblems)
	}
	if o.Transfer() != nil {
		add("Transfer", transferTerms{})
	}
	return document.OpenAPI(o, document.Served{Types: types, Words: words(problems), Hooks: hooks})
}

// words are the only values of members, by their path.
func words(problems []problemKind) map[string][]any {
	statuses := []any{ledger.StatusSeen, ledger.StatusConfirmed, ledger.StatusDropped, ledger.StatusRefunded, ledger.StatusReversed}
	evidence := []any{ledger.LevelAsserted, ledger.LevelSigned, ledger.LevelProvider, ledger.LevelChain, ledger.LevelManual}
	all := map[string][]any{
		"Received.status":   {statusObserved, statusPartial},
		"RailReport.state":  {statusObserved, statusPartial, stateManual, stateUnknown, stateRemoved},
		"RailReport.source": {"chain", "facilitator", "webhook", "provider", sourceOperator},
		"RailReport.lastError": {
			observe.ErrUnreachable, observe.ErrWrongChain, observe.ErrBadAnswer, observe.ErrLagging, observe.ErrLedger, observe.ErrDisagree,
			observe.ErrUnauthorized, observe.ErrLimited, observe.ErrHistory,
		},
		"Receipt.status":             statuses,
		"Receipt.evidence":           evidence,
		"Transition.from":            statuses,
		"Transition.to":              statuses,
		"Transition.evidence":        evidence,
		"Quote.x402Version":          {1},
		"Terms.x402Version":          {1},
		"Terms.method":               {http.MethodPost},
		"Requirement.scheme":         {"exact"},
		"PaymentRequirements.scheme": {"exact"},
		"Settlement.success":         {true},
		"Settlement.status":          {ledger.StatusSeen, ledger.StatusClaimed},
		"Delivery.received":          {true},
	}
	for _, kind := range problems {
		all["Problem.type"] = append(all["Problem.type"], problemType+kind.name)
	}
	return all
}
