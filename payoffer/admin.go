package payoffer

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func init() {
	caddy.RegisterModule(AdminAPI{})
}

// adminPath is the endpoint of the admin API.
const adminPath = "/pay_offer/received"

// AdminAPI adds GET /pay_offer/received to the admin API: the sums of every
// offer of the running configuration, by rail, status and evidence.
type AdminAPI struct{}

// CaddyModule returns the Caddy module information.
func (AdminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.pay_offer",
		New: func() caddy.Module { return new(AdminAPI) },
	}
}

// Routes returns the routes of the admin API.
func (a *AdminAPI) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{{Pattern: adminPath, Handler: caddy.AdminHandlerFunc(a.received)}}
}

// received is what was received of one offer.
type received struct {
	ID      string     `json:"id"`
	BaseURL string     `json:"base_url"`
	Totals  []totalSum `json:"totals"`
}

// totalSum is one sum of the ledger. Amount is in atomic units of the rail's
// asset, USD in dollars over the receipts whose value is known.
type totalSum struct {
	Rail     string    `json:"rail"`
	Status   string    `json:"status"`
	Evidence string    `json:"evidence"`
	Counted  bool      `json:"counted"`
	Own      bool      `json:"own,omitempty"`
	Testnet  bool      `json:"testnet,omitempty"`
	Count    int64     `json:"count"`
	Amount   int64     `json:"amount_atomic"`
	USD      offer.USD `json:"usd"`
}

func (a *AdminAPI) received(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: errors.New("use GET")}
	}
	offers := []received{}
	if app := running.newest(); app != nil {
		for _, svc := range app.offers() {
			totals, err := svc.ledger.Totals(r.Context(), svc.offer.ID)
			if err != nil {
				return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: err, Message: "the ledger cannot be read"}
			}
			offers = append(offers, received{ID: svc.offer.ID, BaseURL: svc.offer.BaseURL, Totals: sums(totals)})
		}
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(map[string]any{"offers": offers})
}

func sums(totals []ledger.Total) []totalSum {
	all := []totalSum{}
	for _, t := range totals {
		all = append(all, totalSum{
			Rail: t.Rail, Status: string(t.Status), Evidence: string(t.EvidenceLevel),
			Counted: t.Status == ledger.StatusConfirmed && t.EvidenceLevel.Counted(),
			Own:     t.Own, Testnet: t.Testnet, Count: t.Count, Amount: t.Amount, USD: offer.USD(t.USDCents),
		})
	}
	return all
}

// Interface guards
var _ caddy.AdminRouter = (*AdminAPI)(nil)
