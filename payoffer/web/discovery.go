package web

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
	"github.com/payoffer/caddy-pay-offer/payoffer/site"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// apiCatalog is the API catalog. Its answer, to HEAD too, carries a link to
// itself by the relation that clients ask for (RFC 9727 section 2).
func (s *Server) apiCatalog() *response {
	self := header{"Link", "<" + s.Offer.URL(offer.PathAPICatalog) + `>; rel="api-catalog"`}
	return responder{common: append(slices.Clone(s.common), self)}.document(document.APICatalog(s.Offer))
}

// icon is the icon of the service's pages.
func (s *Server) icon() *response {
	return s.kept("image/svg+xml", cacheDocument, []byte(site.Icon))
}

// hostMeta is /.well-known/host-meta: XRD, or JSON for a client that asks for
// it (RFC 6415 section 3).
func (s *Server) hostMeta() http.Handler {
	return negotiate(
		variant{asksXRD, once(func() *response { return s.document(document.HostMetaXRD(s.Offer), varyAccept) })},
		variant{asksJRD, once(func() *response { return s.document(document.HostMetaJSON(s.Offer), varyAccept) })})
}

// x402 lists the payable resource for the directories of x402.
func (s *Server) x402() *response { return s.document(document.X402(s.Offer, s.Payments.Accepts())) }

// openAPI is the API description of the offer.
func (s *Server) openAPI() *response {
	return s.document(OpenAPI(s.Offer, slices.Sorted(maps.Keys(s.Hooks))...))
}

// webFinger is RFC 7033: 400 for a query without one readable resource, 404
// for a resource that is not ours. Clients send the resource escaped or not.
func (s *Server) webFinger(r *http.Request) *response {
	account := offer.With{"account": s.Offer.Acct()}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(query["resource"]) != 1 {
		return s.refuse(problemResource, "detail", account)
	}
	found, err := document.WebFinger(s.Offer, query.Get("resource"), query["rel"])
	switch {
	case errors.Is(err, document.ErrUnknownResource):
		return s.refuse(problemUnknown, "detail", account)
	case err != nil:
		return s.refuse(problemResource, "form", account)
	}
	return s.render(http.StatusOK, found.Type, cacheDocument, found.Body) // each request has its own
}

// OpenAPI is the API description of an offer: its schemas are made from the Go
// types that are served. The rails named in hooks take webhooks.
func OpenAPI(o *offer.Offer, hooks ...string) document.Document {
	var types []document.Type
	add := func(name string, value any) { types = append(types, document.Type{Name: name, Value: value}) }
	add("Received", receivedReport{})
	add("RailReport", report.Rail{})
	add("Sum", report.Tally{})
	add("CurrencySum", report.CurrencyTally{})
	add("Receipt", report.Receipt{})
	add("Payment", payment{})
	add("SignedReceipt", x402.Artifact{})
	add("Arrival", arrival{})
	add("Feed", feed{})
	add("Transition", report.Transition{})
	add("Problem", problem{})
	problems := commonProblems
	if len(o.USDC()) > 0 {
		add("Quote", x402.PaymentRequiredV1{})
		add("Terms", payableTerms{})
		add("Requirement", x402.RequirementsV1{})
		add("PaymentRequirements", x402.Requirements{})
		add("Settlement", paid{})
		problems = slices.Concat(problems, paymentProblems)
		if o.Challenges() {
			add("RefusedCredential", refusedCredential{})
		}
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
	statuses := []any{ledger.StatusSeen, ledger.StatusConfirmed, ledger.StatusDropped, ledger.StatusRefunded, ledger.StatusReversed, ledger.StatusMoved}
	evidence := []any{ledger.LevelSigned, ledger.LevelProvider, ledger.LevelChain, ledger.LevelManual}
	all := map[string][]any{
		"Received.status":   {report.StatusObserved, report.StatusPartial},
		"RailReport.state":  {report.StatusObserved, report.StatusPartial, report.StateManual, report.StateUnknown, report.StateRemoved},
		"RailReport.source": {"chain", report.SourceFacilitator, "webhook", "provider", report.SourceOperator},
		"RailReport.lastError": {
			observe.ErrUnreachable, observe.ErrWrongChain, observe.ErrBadAnswer, observe.ErrLagging, observe.ErrLedger, observe.ErrDisagree,
			observe.ErrUnauthorized, observe.ErrLimited, observe.ErrUnverified, observe.ErrMalformed, observe.ErrHistory,
		},
		"Receipt.status":     statuses,
		"Receipt.evidence":   evidence,
		"Receipt.valueBasis": {ledger.BasisFace, ledger.BasisQuote, ledger.BasisRate, ledger.BasisStated},
		"Payment.status":     append(slices.Clip(statuses), ledger.StatusSettling, ledger.StatusClaimed),
		"Payment.evidence":   append(slices.Clip(evidence), ledger.EvidenceFacilitator),
		"Payment.valueBasis": {ledger.BasisFace, ledger.BasisQuote, ledger.BasisRate, ledger.BasisStated},
		"Arrival.state": append([]any{arrivalWaiting, arrivalUnknown, arrivalNone},
			slices.DeleteFunc(slices.Clone(statuses), func(s any) bool { return s == ledger.StatusMoved })...),
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
	for _, name := range mpp.ProblemTypes() {
		all["RefusedCredential.type"] = append(all["RefusedCredential.type"], name)
	}
	for _, kind := range problems {
		all["Problem.type"] = append(all["Problem.type"], problemType+kind.name)
	}
	return all
}
