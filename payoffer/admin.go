package payoffer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	strict "github.com/go-json-experiment/json"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

func init() {
	caddy.RegisterModule(new(AdminAPI))
}

const (
	// maxAdminBody bounds a request's body, in bytes.
	maxAdminBody = 16 << 10
	// defaultAdminPage is how many rows a page lists.
	defaultAdminPage = 20
)

// AdminAPI adds the operator's view of the offers to the admin API:
//
//   - `GET /pay_offer/received`: what was received, and how well each rail is observed.
//   - `GET /pay_offer/receipts`: receipts, newest first.
//   - `POST /pay_offer/receipts`: enters, voids, restores, refunds, values or redacts a receipt.
//   - `GET /pay_offer/movements`: payments, refunds and disputes, one JSON object a line, and their sums in the last line.
//   - `GET /pay_offer/intents`: x402 payments whose outcome is unknown.
//   - `GET /pay_offer/claims`: x402 payments that only a facilitator or the operator reported as settled.
//   - `POST /pay_offer/intents`: sets the outcome of an x402 payment that nothing else can decide, or retracts a claim.
//   - `GET /pay_offer/diagnostics`: what only the running server knows of its offers, for `check --live`.
//   - `GET /pay_offer/passes`: the passes of gates.
//   - `POST /pay_offer/passes`: makes, revokes or deletes a pass.
//   - `POST /pay_offer/keys`: makes a new key for signed offers and receipts.
//   - `GET /pay_offer/announcements`: the endpoints of notifications, and how many changes wait for them.
//   - `POST /pay_offer/announcements`: sends a test message, or the text of `?text=`, to each endpoint.
//   - `GET /pay_offer/feed`: the changes of receipts after a cursor; the request waits for the next change.
type AdminAPI struct{}

// CaddyModule returns the Caddy module information.
func (*AdminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.pay_offer",
		New: func() caddy.Module { return new(AdminAPI) },
	}
}

// Routes returns the routes of the admin API.
func (a *AdminAPI) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: operator.PathReceived, Handler: byMethod{
			http.MethodGet: every((*operator.Service).Received, func(r operator.Received) string { return r.ID }),
		}},
		{Pattern: operator.PathReceipts, Handler: byMethod{
			http.MethodGet:  listing("before", (*operator.Service).Receipts),
			http.MethodPost: action((*operator.Service).Enter, func(e manual.Entry) string { return e.Offer }),
		}},
		{Pattern: operator.PathMovements, Handler: byMethod{http.MethodGet: a.movements}},
		{Pattern: operator.PathIntents, Handler: byMethod{
			http.MethodGet: listing("after", (*operator.Service).Intents), http.MethodPost: a.resolve,
		}},
		{Pattern: operator.PathClaims, Handler: byMethod{http.MethodGet: listing("after", (*operator.Service).Claims)}},
		{Pattern: operator.PathAnnouncements, Handler: byMethod{
			http.MethodGet:  every((*operator.Service).Announcements, func(a operator.Announcements) string { return a.Offer }),
			http.MethodPost: testAnnouncements,
		}},
		{Pattern: operator.PathFeed, Handler: byMethod{http.MethodGet: a.feed}},
		{Pattern: operator.PathDiagnostics, Handler: byMethod{
			http.MethodGet: every(func(d *operator.Service, ctx context.Context) (operator.Diagnostics, error) {
				return d.Diagnose(ctx), nil
			}, func(d operator.Diagnostics) string { return d.ID }),
		}},
		{Pattern: operator.PathKeys, Handler: byMethod{
			http.MethodPost: action((*operator.Service).RotateKey, func(k operator.KeyRotation) string { return k.Offer }),
		}},
		{Pattern: operator.PathPasses, Handler: byMethod{
			http.MethodGet:  every((*operator.Service).Passes, func(p operator.Passes) string { return p.Offer }),
			http.MethodPost: action((*operator.Service).ChangePass, func(p operator.PassChange) string { return p.Offer }),
		}},
	}
}

// byMethod answers an endpoint by the method of the request.
type byMethod map[string]caddy.AdminHandlerFunc

// ServeHTTP implements caddy.AdminHandler.
func (b byMethod) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	if handle := b[r.Method]; handle != nil {
		return handle(w, r)
	}
	allowed := slices.Sorted(maps.Keys(b))
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return refusal(http.StatusMethodNotAllowed, "the method %.20q is not allowed here; use %s", r.Method, strings.Join(allowed, " or "))
}

// refusal is an error answer with a sentence for the operator.
func refusal(status int, format string, args ...any) error {
	return caddy.APIError{HTTPStatus: status, Err: fmt.Errorf(format, args...)}
}

// statuses are the HTTP statuses of operator errors.
var statuses = map[operator.Kind]int{
	operator.Invalid: http.StatusBadRequest, operator.Unknown: http.StatusNotFound,
	operator.Conflict: http.StatusConflict, operator.Unavailable: http.StatusServiceUnavailable,
}

// answerJSON writes the answer of an operator.Service.
func answerJSON(w http.ResponseWriter, value any, err error) error {
	var refused *operator.Error
	switch {
	case errors.As(err, &refused) && refused.Kind == operator.Unavailable && starting() != nil:
		return starting()
	case errors.As(err, &refused):
		return caddy.APIError{HTTPStatus: statuses[refused.Kind], Err: err, Message: refused.Sentence}
	case err != nil:
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(value)
}

// asWritten reads an amount, which is a number or a string.
var asWritten = strict.UnmarshalFunc(func(text []byte, n *json.Number) error { return json.Unmarshal(text, n) })

// decodeBody reads one JSON object with the members of into, each at most once and spelled exactly. The content type
// keeps out requests of foreign web pages.
func decodeBody(w http.ResponseWriter, r *http.Request, into any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return refusal(http.StatusUnsupportedMediaType, "the content type is not application/json; send the header 'Content-Type: application/json'")
	}
	err := strict.UnmarshalRead(http.MaxBytesReader(w, r.Body, maxAdminBody), into, strict.RejectUnknownMembers(true), strict.WithUnmarshalers(asWritten))
	if err == nil {
		return nil
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return refusal(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes; send one JSON object", maxAdminBody)
	}
	return refusal(http.StatusBadRequest, "the body does not fit this endpoint (%w); see docs/reference/http-api", err)
}

// operators are those of the running offers.
func operators() []*operator.Service {
	var found []*operator.Service
	if app := activeApp(); app != nil {
		for _, svc := range app.running() {
			found = append(found, svc.Operator)
		}
	}
	return found
}

var errNoOffer = refusal(http.StatusNotFound, "no offer is running; add the directive pay_offer to the configuration and reload it")

// starting returns why the offers are still starting, or nil if none is. Caddy shows
// a new configuration only after its start has returned.
func starting() error {
	if caddy.Exiting() {
		return refusal(http.StatusServiceUnavailable, "the server is stopping; try again after its next start")
	}
	why := "the ledger is being opened; try again"
	if app := activeApp(); app != nil && app.runtime != nil {
		first := app.running()[0]
		if app.runtime.Ledger.IsOpen() || first.IsOpen() {
			return nil
		}
		why = first.Trouble()
	}
	if pooled() == 0 {
		return nil
	}
	return refusal(http.StatusServiceUnavailable, "the offers are being started: %s", why)
}

// findOperator returns the operator service of an offer. The id is optional if there is
// only one offer.
func findOperator(id string) (*operator.Service, error) {
	all := operators()
	var names []string
	for _, d := range all {
		if d.Offer.ID == id || id == "" && len(all) == 1 {
			return d, nil
		}
		names = append(names, d.Offer.ID)
	}
	switch {
	case len(all) == 0:
		return nil, cmp.Or(starting(), errNoOffer)
	case id == "":
		return nil, refusal(http.StatusBadRequest, "several offers are running; name one of them: %s", strings.Join(names, ", "))
	default:
		return nil, refusal(http.StatusNotFound, "no offer has the id %.100q; valid ids: %s", id, strings.Join(names, ", "))
	}
}

// listing answers with a page of an offer's rows. The query parameters are offer,
// limit, and the one named from, which is the position where the page begins.
func listing[T any](from string, list func(d *operator.Service, ctx context.Context, from int64, limit int) (T, error)) caddy.AdminHandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) (err error) {
		query := r.URL.Query()
		for name := range query {
			if name != "offer" && name != "limit" && name != from {
				return refusal(http.StatusBadRequest, "there is no parameter %.40q; valid parameters: offer, %s, limit", name, from)
			}
		}
		limit, start := defaultAdminPage, int64(0)
		if query.Has("limit") {
			if limit, err = strconv.Atoi(query.Get("limit")); err != nil || limit < 1 || limit > operator.MaxPage {
				return refusal(http.StatusBadRequest, "limit %.20q is out of range; write a number from 1 to %d", query.Get("limit"), operator.MaxPage)
			}
		}
		if query.Has(from) {
			if start, err = strconv.ParseInt(query.Get(from), 10, 64); err != nil || start < 1 {
				return refusal(http.StatusBadRequest, "%s must be the number 'next' of the page before; leave it out for the first page", from)
			}
		}
		d, err := findOperator(query.Get("offer"))
		if err != nil {
			return err
		}
		page, err := list(d, r.Context(), start, limit)
		return answerJSON(w, page, err)
	}
}

// every calls a function for every offer and answers with the results, in the order of the ids.
func every[T any](call func(*operator.Service, context.Context) (T, error), id func(T) string) caddy.AdminHandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		offers, all := []T{}, operators()
		if err := starting(); len(all) == 0 && err != nil {
			return err
		}
		for _, d := range all {
			one, err := call(d, r.Context())
			if err != nil {
				return answerJSON(w, nil, err)
			}
			offers = append(offers, one)
		}
		slices.SortFunc(offers, func(a, b T) int { return strings.Compare(id(a), id(b)) })
		return answerJSON(w, map[string]any{"offers": offers}, nil)
	}
}

// testAnnouncements sends a message to the endpoints of every offer.
func testAnnouncements(w http.ResponseWriter, r *http.Request) error {
	return every(func(s *operator.Service, ctx context.Context) (operator.Announcements, error) {
		return s.TestAnnouncements(ctx, r.FormValue("text"))
	}, func(a operator.Announcements) string { return a.Offer })(w, r)
}

// action answers with the result of an action. id returns the offer that its body names.
func action[B, T any](act func(*operator.Service, context.Context, B) (T, error), id func(B) string) caddy.AdminHandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) error {
		var body B
		if err := decodeBody(w, r, &body); err != nil {
			return err
		}
		d, err := findOperator(id(body))
		if err != nil {
			return err
		}
		result, err := act(d, r.Context(), body)
		return answerJSON(w, result, err)
	}
}

// resolve asks each operator, because the request does not name the offer.
func (*AdminAPI) resolve(w http.ResponseWriter, r *http.Request) error {
	var body operator.IntentOutcome
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	resolved, err := operator.Intent{}, cmp.Or(starting(), errNoOffer)
	for _, d := range operators() {
		resolved, err = d.Resolve(r.Context(), body)
		if refused := (*operator.Error)(nil); !errors.As(err, &refused) || refused.Kind != operator.Unknown {
			break
		}
	}
	return answerJSON(w, resolved, err)
}

// Interface guards
var (
	_ caddy.AdminRouter  = (*AdminAPI)(nil)
	_ caddy.AdminHandler = (byMethod)(nil)
)
