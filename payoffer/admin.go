package payoffer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
)

func init() {
	caddy.RegisterModule(new(AdminAPI))
}

const (
	// The endpoints of the admin API.
	adminReceived = "/pay_offer/received"
	adminReceipts = "/pay_offer/receipts"
	adminIntents  = "/pay_offer/intents"

	// maxAdminBody bounds a request's body, in bytes.
	maxAdminBody = 16 << 10
	// defaultAdminPage and maxAdminPage are how many rows a page lists.
	defaultAdminPage, maxAdminPage = 20, 100
)

// AdminAPI adds the operator's view of the offers to the admin API:
//
//   - `GET /pay_offer/received`: what was received, and how well each rail is observed.
//   - `GET /pay_offer/receipts`: receipts, newest first.
//   - `POST /pay_offer/receipts`: enters, corrects, reverses or restores a receipt.
//   - `GET /pay_offer/intents`: x402 payments whose outcome is unknown.
//   - `POST /pay_offer/intents`: says what became of one that nothing else can decide.
//   - `POST /pay_offer/keys`: makes a new key for signed offers and receipts.
type AdminAPI struct {
	logger *zap.Logger
	// entries lets one entry be made at a time: what stands decides.
	entries sync.Mutex
}

// CaddyModule returns the Caddy module information.
func (*AdminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.pay_offer",
		New: func() caddy.Module { return new(AdminAPI) },
	}
}

// Provision sets up the module.
func (a *AdminAPI) Provision(ctx caddy.Context) error {
	a.logger = ctx.Logger()
	return nil
}

// Routes returns the routes of the admin API.
func (a *AdminAPI) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: adminReceived, Handler: byMethod{http.MethodGet: a.received}},
		{Pattern: adminReceipts, Handler: byMethod{http.MethodGet: a.receipts, http.MethodPost: a.enter}},
		{Pattern: adminIntents, Handler: byMethod{http.MethodGet: a.intents, http.MethodPost: a.resolve}},
		{Pattern: adminKeys, Handler: byMethod{http.MethodPost: a.rotateKey}},
	}
}

// byMethod answers an endpoint by the method of the request.
type byMethod map[string]caddy.AdminHandlerFunc

// ServeHTTP implements caddy.AdminHandler.
func (m byMethod) ServeHTTP(w http.ResponseWriter, r *http.Request) error {
	if handle := m[r.Method]; handle != nil {
		return handle(w, r)
	}
	var allowed []string
	for method := range m {
		allowed = append(allowed, method)
	}
	slices.Sort(allowed)
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return refusal(http.StatusMethodNotAllowed, "use %s", strings.Join(allowed, " or "))
}

// refusal is an error answer with a sentence for the operator.
func refusal(status int, format string, args ...any) error {
	return caddy.APIError{HTTPStatus: status, Err: fmt.Errorf(format, args...)}
}

// ledgerRefusal is the answer while the ledger cannot be read or written.
func ledgerRefusal(err error) error {
	return caddy.APIError{
		HTTPStatus: http.StatusServiceUnavailable, Err: err,
		Message: "the ledger cannot be used now, nothing was changed; the log says why, try again",
	}
}

func answerJSON(w http.ResponseWriter, value any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(value)
}

// decodeBody reads one JSON object that has no other members than into. The
// content type keeps out what a foreign page can send without being asked.
func decodeBody(w http.ResponseWriter, r *http.Request, into any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return refusal(http.StatusUnsupportedMediaType, "the content type must be application/json")
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAdminBody))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		_, err = decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		err = errors.Join(err, errors.New("something follows the JSON object"))
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return refusal(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", maxAdminBody)
	}
	return refusal(http.StatusBadRequest, "the body cannot be read: %w", err)
}

// namedService finds the service of an offer; the name may be left out where
// there is one offer alone.
func namedService(id string) (*service, error) {
	var services []*service
	if app := running.newest(); app != nil {
		services = app.offers()
	}
	var names []string
	for _, svc := range services {
		if svc.offer.ID == id || id == "" && len(services) == 1 {
			return svc, nil
		}
		names = append(names, svc.offer.ID)
	}
	switch {
	case len(services) == 0:
		return nil, refusal(http.StatusNotFound, "no offer is running; add the directive pay_offer to the configuration")
	case id == "":
		return nil, refusal(http.StatusBadRequest, "several offers are running; name one: %s", strings.Join(names, ", "))
	default:
		return nil, refusal(http.StatusNotFound, "no offer has the id %.100q; there are: %s", id, strings.Join(names, ", "))
	}
}

// adminPage is which rows of an offer are asked for.
type adminPage struct {
	svc *service
	// from is the number from which the list goes on; 0 for its beginning.
	from  int64
	limit int
}

// parseAdminPage reads the query parameters offer, limit, and the one that says
// where the list goes on.
func parseAdminPage(query url.Values, from string) (page adminPage, err error) {
	for name := range query {
		if name != "offer" && name != "limit" && name != from {
			return page, refusal(http.StatusBadRequest, "there is no parameter %.40q; use offer, %s and limit", name, from)
		}
	}
	page.limit = defaultAdminPage
	if query.Has("limit") {
		if page.limit, err = strconv.Atoi(query.Get("limit")); err != nil || page.limit < 1 || page.limit > maxAdminPage {
			return page, refusal(http.StatusBadRequest, "limit must be 1 to %d", maxAdminPage)
		}
	}
	if query.Has(from) {
		if page.from, err = strconv.ParseInt(query.Get(from), 10, 64); err != nil || page.from < 1 {
			return page, refusal(http.StatusBadRequest, "%s must be the number 'next' of the page before; leave it out for the first page", from)
		}
	}
	page.svc, err = namedService(query.Get("offer"))
	return page, err
}

// Interface guards
var (
	_ caddy.AdminRouter  = (*AdminAPI)(nil)
	_ caddy.Provisioner  = (*AdminAPI)(nil)
	_ caddy.AdminHandler = (byMethod)(nil)
)
