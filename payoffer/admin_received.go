package payoffer

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// received is what was received of one offer.
type received struct {
	ID      string `json:"id"`
	BaseURL string `json:"base_url"`
	// Report is what the offer itself answers at /v1/received: the goal, the
	// sums, and how well each rail is observed.
	Report json.RawMessage `json:"report"`
	// Totals are the ledger's sums behind it.
	Totals []totalSum `json:"totals"`
}

// totalSum is one sum of the ledger. Amount is in atomic units of the rail's
// asset, USD in dollars over the receipts whose value is known.
type totalSum struct {
	Rail     string    `json:"rail"`
	Account  string    `json:"account"`
	Status   string    `json:"status"`
	Evidence string    `json:"evidence"`
	Counted  bool      `json:"counted"`
	Own      bool      `json:"own,omitempty"`
	Testnet  bool      `json:"testnet,omitempty"`
	Count    int64     `json:"count"`
	Amount   int64     `json:"amount_atomic"`
	Refunded int64     `json:"refunded_atomic,omitempty"`
	USD      offer.USD `json:"usd"`
	// RefundedUSD is the part of USD that went back.
	RefundedUSD offer.USD `json:"refunded_usd,omitempty"`
	// UnknownUSD is how many receipts USD leaves out.
	UnknownUSD int64 `json:"unknown_usd,omitempty"`
}

// received is GET /pay_offer/received: every offer of the running
// configuration.
func (a *AdminAPI) received(w http.ResponseWriter, r *http.Request) error {
	offers := []received{}
	if app := running.newest(); app != nil {
		for _, svc := range app.offers() {
			one, err := svc.received(r.Context())
			if err != nil {
				return ledgerRefusal(err)
			}
			offers = append(offers, one)
		}
	}
	slices.SortFunc(offers, func(a, b received) int { return strings.Compare(a.ID, b.ID) })
	return answerJSON(w, map[string]any{"offers": offers})
}

func (svc *service) received(ctx context.Context) (received, error) {
	totals, err := svc.ledger.Totals(ctx, svc.offer.ID)
	if err != nil {
		return received{}, err
	}
	report, err := svc.server.Summary(ctx)
	allTest, _ := svc.offer.Test()
	return received{ID: svc.offer.ID, BaseURL: svc.offer.BaseURL, Report: report, Totals: sums(totals, allTest)}, err
}

// sums says of each sum whether it is money received. Of test money only a
// chain's ever is, where all chain rails of the offer are on test networks.
func sums(totals []ledger.Total, allTest bool) []totalSum {
	all := []totalSum{}
	for _, t := range totals {
		all = append(all, totalSum{
			Rail: t.Rail, Account: t.Account, Status: string(t.Status), Evidence: string(t.EvidenceLevel),
			Counted: t.Status == ledger.StatusConfirmed && t.EvidenceLevel.Counted() &&
				(!t.Testnet || allTest && t.EvidenceLevel == ledger.LevelChain),
			Own: t.Own, Testnet: t.Testnet, Count: t.Count, Amount: t.Amount, Refunded: t.Refunded,
			USD: offer.USD(t.USDCents), RefundedUSD: offer.USD(t.RefundedCents), UnknownUSD: t.UnknownUSD,
		})
	}
	return all
}
