package web

import (
	"errors"
	"image"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/page"
	"github.com/payoffer/caddy-pay-offer/payoffer/picture"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// apiCatalog is the API catalog, with a link to itself (RFC 9727 section 2).
func (s *Server) apiCatalog() *response {
	self := header{"Link", "<" + s.Offer.URL(offer.PathAPICatalog) + `>; rel="api-catalog"`}
	return responder{common: append(slices.Clone(s.common), self)}.document(document.APICatalog(s.Offer))
}

// svgImage is a response with an SVG image that has nothing to run or load.
func svgImage(draw func(*offer.Offer) []byte) func(*Server) http.Handler {
	return static(func(s *Server) *response {
		return s.compressible(typeSVG, cacheDocument, draw(s.Offer), header{"Content-Security-Policy", "default-src 'none'; sandbox"})
	})
}

// rasterImage is a response with an image of a media type.
func rasterImage(mediaType string, draw func(*offer.Offer) []byte) func(*Server) http.Handler {
	return static(func(s *Server) *response { return s.render(http.StatusOK, mediaType, cacheDocument, draw(s.Offer)) })
}

// preview is the image of shared links. The first request reads the logo.
func (s *Server) preview() http.Handler {
	var drawn *response
	var once sync.Once
	return responseFunc(func(r *http.Request) *response {
		once.Do(func() {
			var logo image.Image
			if s.SiteFile != nil && s.Offer.Logo != "" && !strings.Contains(s.Offer.Logo, offer.PathPreview) {
				logo = picture.Logo(s.SiteFile(r, s.Offer.Logo))
			}
			drawn = s.render(http.StatusOK, typePNG, cacheDocument, picture.Preview(s.Offer, logo))
		})
		return drawn
	})
}

func (s *Server) walletScript() *response {
	return s.compressible("text/javascript; charset=utf-8", cacheForever, []byte(page.WalletScript))
}

// hostMeta is /.well-known/host-meta: XRD, or JSON on request (RFC 6415 section 3).
func (s *Server) hostMeta() http.Handler {
	return negotiate(
		variant{asksXRD, renderOnce(func() *response { return s.liveDocument(document.HostMetaXRD(s.Offer), varyAccept) })},
		variant{asksJRD, renderOnce(func() *response { return s.liveDocument(document.HostMetaJSON(s.Offer), varyAccept) })})
}

// x402 is the document for directories, at both of its paths.
func (s *Server) x402() http.Handler {
	return s.fromLive(offer.PathX402, func(*liveState) *response {
		return s.document(document.X402(s.Offer, s.Payments.Accepts()))
	})
}

// securityText is security.txt as of today.
func (s *Server) securityText(r *http.Request) *response { return (*s.security.Load())(r) }

func (s *Server) securityRoot() *response { return s.redirect(s.Offer.URL(offer.PathSecurity)) }

// webFinger is RFC 7033: 400 unless the query has one valid resource, 404 for another
// account. Clients send the resource escaped or not.
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
	return s.render(http.StatusOK, found.Type, cacheDocument, found.Body)
}

func (s *Server) openAPI() *response {
	return s.document(OpenAPI(s.Offer, slices.Sorted(maps.Keys(s.Hooks))...))
}

// OpenAPI is the API description of an offer: its operations are the routes, its schemas the
// Go types that are served. hooks are the rails that take webhooks.
func OpenAPI(o *offer.Offer, hooks ...string) document.Document {
	var operations []document.Operation
	for _, row := range table(o) {
		if row.Summary != "" {
			operations = append(operations, row.Operation)
		}
	}
	types := map[string]any{
		"Received": receivedReport{}, "RailReport": report.Rail{}, "Sum": report.Tally{}, "CurrencySum": report.CurrencyTally{},
		"Receipt": report.Receipt{}, "Payment": payment{}, "SignedReceipt": x402.Artifact{}, "Arrival": arrival{}, "Feed": feed{}, "Transition": report.Transition{}, "Problem": problem{},
	}
	if len(o.USDC()) > 0 {
		types["Quote"], types["Terms"], types["Settlement"] = x402.PaymentRequiredV1{}, payableTerms{}, paid{}
		types["Requirement"], types["PaymentRequirements"], types["Resource"] = x402.RequirementsV1{}, x402.Requirements{}, offer.Resource{}
		types["PaymentRequired"], types["SettleResponse"], types["ExactPayload"] = x402.PaymentRequired{}, x402.SettleResponse{}, x402.Authorized{}
		types["PaymentPayload"], types["PaymentPayloadV1"] = x402.PaymentPayload{}, x402.PaymentPayloadV1{}
		if o.Challenges() {
			maps.Copy(types, mpp.Schemas())
		}
	} else {
		types["Quote"], types["Terms"] = x402.CardQuote{}, cardTerms{}
	}
	if len(hooks) > 0 {
		types["Delivery"] = delivered{}
	}
	if makesInvoices(o) {
		types["PaymentRequest"] = paymentRequest{}
	}
	if o.BankTransfer() != nil {
		types["Transfer"] = transferTerms{}
	}
	if o.PrivateReceived { // no operation has them
		for name := range strings.FieldsSeq("Received RailReport Sum CurrencySum Receipt Feed Transition") {
			delete(types, name)
		}
	}
	return document.OpenAPI(o, append(operations, hookOperations(hooks)...), document.Schemas{Types: types, Enums: enums(o)})
}

// enums are the values of the members of the served types.
func enums(o *offer.Offer) map[string][]any {
	statuses := []any{ledger.StatusSeen, ledger.StatusConfirmed, ledger.StatusDropped, ledger.StatusRefunded, ledger.StatusReversed, ledger.StatusMoved}
	evidence := []any{ledger.LevelSigned, ledger.LevelProvider, ledger.LevelChain, ledger.LevelManual}
	basis := []any{ledger.BasisFace, ledger.BasisQuote, ledger.BasisRate, ledger.BasisStated}
	all := map[string][]any{
		"Received.status":   {report.StatusObserved, report.StatusPartial},
		"RailReport.state":  {report.StatusObserved, report.StatusPartial, report.StateManual, report.StateUnknown, report.StateRemoved},
		"RailReport.source": {"chain", report.SourceFacilitator, "webhook", "provider", report.SourceOperator},
		"RailReport.lastError": {
			observe.ErrUnreachable, observe.ErrWrongChain, observe.ErrBadAnswer, observe.ErrLagging, observe.ErrLedger, observe.ErrDisagree,
			observe.ErrUnauthorized, observe.ErrLimited, observe.ErrUnverified, observe.ErrClock, observe.ErrMalformed, observe.ErrHistory,
		},
		"Receipt.status": statuses, "Receipt.evidence": evidence, "Receipt.valueBasis": basis,
		"Payment.status":        append(slices.Clip(statuses), ledger.StatusSettling, ledger.StatusClaimed),
		"Payment.evidence":      append(slices.Clip(evidence), ledger.EvidenceFacilitator),
		"Payment.valueBasis":    basis,
		"PaymentRequest.status": {requestOpen, requestExpired},
		"Arrival.state": append([]any{arrivalWaiting, arrivalUnknown, arrivalNone},
			slices.DeleteFunc(slices.Clone(statuses), func(s any) bool { return s == ledger.StatusMoved })...),
		"Transition.from": statuses, "Transition.to": statuses, "Transition.evidence": evidence,
		"PaymentRequired.x402Version": {2}, "PaymentPayload.x402Version": {2}, "PaymentPayloadV1.x402Version": {1},
	}
	if o.Challenges() {
		for _, name := range mpp.ProblemTypes() {
			all["Problem.type"] = append(all["Problem.type"], name)
		}
	}
	for _, kind := range problemKinds {
		all["Problem.type"] = append(all["Problem.type"], problemType+kind.name)
	}
	return all
}
