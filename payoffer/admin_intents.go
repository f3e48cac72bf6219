package payoffer

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// reasonOperator is the code of a payment that the operator says did not
	// happen. Its payer reads it; the operator's own words are in the log.
	reasonOperator = "operator_not_paid"
	// expiryMargin is how long after its end an authorization may still be in a
	// block that was not looked at: clocks and blocks differ by less.
	expiryMargin = 10 * time.Minute
)

var transactionHash = regexp.MustCompile(`^0x[0-9a-fA-F]{64}$`)

// intentOutcome is the body of POST /pay_offer/intents.
type intentOutcome struct {
	// Network is a CAIP-2 id or a chain's name.
	Network string `json:"network"`
	// Asset is the token contract. Default: USDC on the network.
	Asset string `json:"asset,omitempty"`
	From  string `json:"from"`
	Nonce string `json:"nonce"`
	// Outcome is paid or not_paid.
	Outcome string `json:"outcome"`
	// Transaction is the hash of the transfer; with paid alone.
	Transaction string `json:"transaction,omitempty"`
	Reason      string `json:"reason"`
}

// intentRow is an x402 payment for its operator.
type intentRow struct {
	Number      int64        `json:"number"`
	Offer       string       `json:"offer"`
	Rail        string       `json:"rail"`
	Account     string       `json:"account"`
	Network     string       `json:"network"`
	Asset       string       `json:"asset"`
	From        string       `json:"from"`
	Nonce       string       `json:"nonce"`
	Amount      int64        `json:"amount_atomic"`
	AmountUSD   *json.Number `json:"amount_usd"`
	State       string       `json:"state"`
	Reason      string       `json:"reason"`
	Transaction string       `json:"transaction"`
	Facilitator string       `json:"facilitator"`
	ValidBefore string       `json:"valid_before"`
	CreatedAt   string       `json:"created_at"`
	UpdatedAt   string       `json:"updated_at"`
	// Waiting says what the outcome waits for; empty when it is known.
	Waiting string `json:"waiting,omitempty"`
}

// intents is GET /pay_offer/intents: a page of the x402 payments of an offer
// whose outcome is unknown, oldest first. The parameter after goes on where a
// page ended.
func (a *AdminAPI) intents(w http.ResponseWriter, r *http.Request) error {
	page, err := parseAdminPage(r.URL.Query(), "after")
	if err != nil {
		return err
	}
	svc := page.svc
	open, err := svc.ledger.OpenIntents(r.Context(), svc.offer.ID, page.from, page.limit+1) // one more tells of a next page
	if err != nil {
		return ledgerRefusal(err)
	}
	var next *int64
	if len(open) > page.limit {
		open = open[:page.limit]
		next = &open[page.limit-1].ID
	}
	listed, now := []intentRow{}, time.Now()
	for _, i := range open {
		row := newIntentRow(i)
		row.Waiting = cmp.Or(svc.decides(i, false, now), "for the operator, who resolves it")
		listed = append(listed, row)
	}
	return answerJSON(w, map[string]any{"intents": listed, "next": next})
}

// resolve is POST /pay_offer/intents: the operator says what became of a
// payment. It is refused while something else will tell. What the operator
// says is a claim: the chain's word replaces it, whenever it comes.
func (a *AdminAPI) resolve(w http.ResponseWriter, r *http.Request) error {
	var body intentOutcome
	if err := decodeBody(w, r, &body); err != nil {
		return err
	}
	key, err := body.key()
	if err != nil {
		return err
	}
	a.entries.Lock()
	defer a.entries.Unlock()
	svc, found, err := openIntent(r, key)
	if err != nil {
		return err
	}
	paid := body.Outcome == "paid"
	if waiting := svc.decides(found, paid, time.Now()); waiting != "" {
		return refusal(http.StatusConflict, "this payment cannot be resolved by hand now; it waits %s", waiting)
	}
	if paid {
		err = svc.ledger.SettleIntent(r.Context(), key, strings.ToLower(body.Transaction), nil, ledger.EvidenceFacilitator)
	} else {
		err = svc.ledger.RefuseIntent(r.Context(), key, reasonOperator)
	}
	if errors.Is(err, ledger.ErrIntentState) {
		return refusal(http.StatusConflict, "this payment was decided at the same moment; list the open ones again")
	}
	if err != nil {
		return ledgerRefusal(err)
	}
	a.logger.Info("the operator resolved an open payment", zap.String("offer", found.Offer), zap.String("network", found.Network),
		zap.String("nonce", found.Nonce), zap.String("outcome", body.Outcome), zap.String("reason", body.Reason))
	found, _, err = svc.ledger.Intent(r.Context(), key)
	if err != nil {
		return ledgerRefusal(err)
	}
	return answerJSON(w, newIntentRow(found))
}

// key checks the body and names the authorization.
func (b intentOutcome) key() (ledger.IntentKey, error) {
	network, err := offer.LookupNetwork(b.Network)
	if err != nil {
		return ledger.IntentKey{}, refusal(http.StatusBadRequest, "network: %w", err)
	}
	if err := manual.CheckReason(b.Reason); err != nil {
		return ledger.IntentKey{}, entryRefusal(err)
	}
	switch {
	case b.From == "" || b.Nonce == "":
		err = refusal(http.StatusBadRequest, "from and nonce name the authorization; copy both from the list of open payments")
	case b.Outcome != "paid" && b.Outcome != "not_paid":
		err = refusal(http.StatusBadRequest, "the outcome must be paid or not_paid")
	case b.Outcome == "paid" && !transactionHash.MatchString(b.Transaction):
		err = refusal(http.StatusBadRequest, "paid needs the hash of the transfer's transaction: 0x and 64 hexadecimal digits")
	case b.Outcome == "not_paid" && b.Transaction != "":
		err = refusal(http.StatusBadRequest, "what was not paid has no transaction; leave it out")
	}
	key := ledger.IntentKey{Network: network.CAIP2(), Asset: b.Asset, From: b.From, Nonce: b.Nonce}
	if key.Asset == "" {
		key.Asset = network.USDC
	}
	return key, err
}

// openIntent finds an open payment and the offer that it was for.
func openIntent(r *http.Request, key ledger.IntentKey) (*service, ledger.Intent, error) {
	var services []*service
	if app := running.newest(); app != nil {
		services = app.offers()
	}
	for _, svc := range services {
		found, known, err := svc.ledger.Intent(r.Context(), key)
		switch {
		case err != nil:
			return nil, found, ledgerRefusal(err)
		case !known || found.Offer != svc.offer.ID:
		case found.State != ledger.IntentSettling:
			return nil, found, refusal(http.StatusConflict, "this payment is %s; there is nothing to resolve", found.State)
		default:
			return svc, found, nil
		}
	}
	return nil, ledger.Intent{}, refusal(http.StatusNotFound, "no payment of a running offer has this network, payer and nonce; list the open ones again")
}

// decides says what an open payment waits for before the operator may say that
// it was paid, or was not; empty for nothing. Nothing is guessed: while the
// chain is read it decides, and what can still be settled is not called unpaid.
func (svc *service) decides(i ledger.Intent, paid bool, now time.Time) string {
	health, configured := svc.chainHealth(i.Network)
	end := time.Unix(i.ValidBefore, 0).Add(expiryMargin)
	switch {
	case i.LeaseUntil > now.Unix():
		return "for an attempt to settle it that is under way: about a minute"
	case !configured:
		return "for its chain, which is read at a public endpoint since its rail was removed; put a usdc rail on " + i.Network + " into the configuration"
	case health.Source == "chain" && !(health.Blind && health.LastError != ""):
		return "for its chain, which is read and decides"
	case !paid && now.Before(end):
		return "until " + moment(end.Unix()) + ", for its authorization can be settled till then"
	default:
		return ""
	}
}

// chainHealth says how well the chain of a network is read; false where no
// configured rail is on it.
func (svc *service) chainHealth(network string) (observe.Health, bool) {
	for _, rail := range svc.offer.USDC() {
		if rail.Network.CAIP2() != network {
			continue
		}
		for _, health := range svc.health() {
			if health.Rail == rail.Name() {
				return health, true
			}
		}
	}
	return observe.Health{}, false
}

func newIntentRow(i ledger.Intent) intentRow {
	row := intentRow{
		Number: i.ID, Offer: i.Offer, Rail: i.Rail, Account: i.Account, Network: i.Network, Asset: i.Asset,
		From: i.From, Nonce: i.Nonce, Amount: i.Amount, State: string(i.State), Reason: i.Reason,
		Transaction: i.Transaction, Facilitator: i.Facilitator,
		ValidBefore: moment(i.ValidBefore), CreatedAt: moment(i.CreatedAt), UpdatedAt: moment(i.UpdatedAt),
	}
	row.AmountUSD = dollars(i.USDCents)
	return row
}
