package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// expiryMargin is how long after its end an authorization may still be in a
// block that was not looked at: clocks and blocks differ by less.
const expiryMargin = 10 * time.Minute

var transactionHash = regexp.MustCompile(`^0x[0-9a-fA-F]{64}$`)

// IntentOutcome is what an operator says became of an x402 payment.
type IntentOutcome struct {
	Network     string `json:"network"`         // a CAIP-2 id or a chain's name
	Asset       string `json:"asset,omitempty"` // the token contract; default: USDC on the network
	From        string `json:"from"`
	Nonce       string `json:"nonce"`
	Outcome     string `json:"outcome"`               // paid or not_paid
	Transaction string `json:"transaction,omitempty"` // the hash of the transfer; with paid alone
	Reason      string `json:"reason"`
}

// Intent is an x402 payment for its operator.
type Intent struct {
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
	Evidence    string       `json:"evidence,omitempty"` // of a settled one: facilitator (a claim) or chain
	Reason      string       `json:"reason"`
	Transaction string       `json:"transaction"`
	Facilitator string       `json:"facilitator"`
	ValidBefore string       `json:"valid_before"`
	CreatedAt   string       `json:"created_at"`
	UpdatedAt   string       `json:"updated_at"`
	Waiting     string       `json:"waiting,omitempty"` // what the outcome waits for; empty when it is known
}

// Intents is a page of x402 payments, oldest first.
type Intents struct {
	Intents []Intent `json:"intents"`
	Next    *int64   `json:"next"` // the number above which the list goes on; nil at its end
}

// Intents lists open payments numbered above after, and what each waits for.
func (d *Desk) Intents(ctx context.Context, after int64, limit int) (Intents, error) {
	open, err := d.Ledger.OpenIntents(ctx, d.Offer.ID, after, limit+1)
	if err != nil {
		return Intents{}, noLedger(err)
	}
	open, next := cut(open, limit, func(i ledger.Intent) int64 { return i.ID })
	page, now := Intents{[]Intent{}, next}, d.Now()
	for _, i := range open {
		row := newIntent(i)
		row.Waiting = cmp.Or(d.decides(i, false, now), "for the operator, who resolves it")
		page.Intents = append(page.Intents, row)
	}
	return page, nil
}

// Claims lists payments numbered above after that are settled by somebody's word
// alone: a facilitator's, or the operator's.
func (d *Desk) Claims(ctx context.Context, after int64, limit int) (Intents, error) {
	claims, err := d.Ledger.Claims(ctx, d.Offer.ID, after, limit+1)
	if err != nil {
		return Intents{}, noLedger(err)
	}
	claims, next := cut(claims, limit, func(i ledger.Intent) int64 { return i.ID })
	page := Intents{[]Intent{}, next}
	for _, i := range claims {
		page.Intents = append(page.Intents, newIntent(i))
	}
	return page, nil
}

// Resolve takes the operator's word on what became of a payment that is open, or
// that a word alone decided, and returns it as it stands then. It is refused while
// something else will tell. What the operator says is a claim: the chain's word
// replaces it, whenever it comes. The same again changes nothing.
func (d *Desk) Resolve(ctx context.Context, o IntentOutcome) (Intent, error) {
	key, err := o.key()
	if err != nil {
		return Intent{}, err
	}
	d.acting.Lock()
	defer d.acting.Unlock()
	stored, err := d.payment(ctx, key)
	if err != nil {
		return Intent{}, err
	}
	paid, hash := o.Outcome == "paid", strings.ToLower(o.Transaction)
	change, err := d.change(stored, paid, hash)
	if err != nil || change == nil {
		return newIntent(stored), err
	}
	if waiting := d.decides(stored, paid, d.Now()); waiting != "" {
		return Intent{}, refuse(Conflict, "this payment cannot be resolved by hand now; it waits %s", waiting)
	}
	err = change(ctx)
	if errors.Is(err, ledger.ErrTransaction) {
		return Intent{}, refuse(Conflict, "another payment names this transaction; look up the one that made this payment, or take the other one back if it is false")
	}
	if errors.Is(err, ledger.ErrIntentState) {
		return Intent{}, refuse(Conflict, "this payment was decided at the same moment; list the open ones again")
	}
	if err != nil {
		return Intent{}, noLedger(err)
	}
	d.Logger.Info("the operator resolved a payment",
		"network", stored.Network, "nonce", stored.Nonce, "state", string(stored.State), "outcome", o.Outcome, "reason", o.Reason)
	resolved, _, err := d.Ledger.Intent(ctx, key)
	if err != nil {
		return Intent{}, &Error{Unavailable, "the payment is resolved as you said, but the ledger cannot be read now; the log says why", err}
	}
	return newIntent(resolved), nil
}

// change is what makes a payment what the operator says; nil where it is that
// already. The payer reads a code, and the operator's own words are in the log.
func (d *Desk) change(i ledger.Intent, paid bool, hash string) (func(context.Context) error, error) {
	key, claim := i.IntentKey, i.State == ledger.IntentSettled && i.Evidence == ledger.EvidenceFacilitator
	byOperator := i.State == ledger.IntentRefused && i.Reason == x402.ReasonOperator
	switch {
	case paid && claim && i.Transaction == hash, !paid && byOperator:
		return nil, nil
	case paid && claim:
		return nil, refuse(Conflict, "this payment is settled already, by the claim of transaction %s; if that is false, say that it was not paid first", i.Transaction)
	case paid && i.State == ledger.IntentSettling:
		return func(ctx context.Context) error {
			return d.Ledger.SettleIntent(ctx, key, hash, nil, ledger.EvidenceFacilitator)
		}, nil
	case paid && byOperator:
		return func(ctx context.Context) error { return d.Ledger.ClaimRefused(ctx, key, hash, x402.ReasonOperator) }, nil
	case !paid && i.State == ledger.IntentSettling:
		return func(ctx context.Context) error { return d.Ledger.RefuseIntent(ctx, key, x402.ReasonOperator) }, nil
	case !paid && claim:
		return func(ctx context.Context) error { return d.Ledger.RetractClaim(ctx, key, x402.ReasonOperator) }, nil
	default:
		return nil, refuse(Conflict, "this payment is %s, and not by a claim or by you; there is nothing to resolve", i.State)
	}
}

// key checks what the operator says and names the authorization.
func (o IntentOutcome) key() (ledger.IntentKey, error) {
	network, err := offer.LookupNetwork(o.Network)
	if err != nil {
		return ledger.IntentKey{}, refuse(Invalid, "network: %s", err)
	}
	if err := manual.CheckReason(o.Reason); err != nil {
		return ledger.IntentKey{}, invalid(err)
	}
	switch {
	case o.From == "" || o.Nonce == "":
		err = refuse(Invalid, "from and nonce name the authorization; copy both from the list of payments")
	case o.Outcome != "paid" && o.Outcome != "not_paid":
		err = refuse(Invalid, "the outcome must be paid or not_paid")
	case o.Outcome == "paid" && (!transactionHash.MatchString(o.Transaction) || strings.Trim(o.Transaction[2:], "0") == ""):
		err = refuse(Invalid, "paid needs the hash of the transfer's transaction: 0x and 64 hexadecimal digits")
	case o.Outcome == "not_paid" && o.Transaction != "":
		err = refuse(Invalid, "what was not paid has no transaction; leave it out")
	}
	return ledger.IntentKey{
		Network: network.CAIP2(), Asset: cmp.Or(o.Asset, network.USDC), From: o.From, Nonce: o.Nonce,
	}, err
}

// payment finds a payment of the offer.
func (d *Desk) payment(ctx context.Context, key ledger.IntentKey) (ledger.Intent, error) {
	found, known, err := d.Ledger.Intent(ctx, key)
	switch {
	case err != nil:
		return found, noLedger(err)
	case !known || found.Offer != d.Offer.ID:
		return found, refuse(Unknown, "no payment of a running offer has this network, payer and nonce; list them again")
	default:
		return found, nil
	}
}

// decides says what a payment waits for before the operator may say that
// it was paid, or was not; empty for nothing. Nothing is guessed: while the
// chain is read it decides, and what can still be settled is not called unpaid.
func (d *Desk) decides(i ledger.Intent, paid bool, now time.Time) string {
	health, configured := d.chainHealth(i.Network)
	end := time.Unix(i.ValidBefore, 0).Add(expiryMargin)
	switch {
	case i.State == ledger.IntentSettling && i.Leased(now):
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
func (d *Desk) chainHealth(network string) (observe.Health, bool) {
	for _, rail := range d.Offer.USDC() {
		for _, health := range d.Health() {
			if rail.Network.CAIP2() == network && health.Rail == rail.Name() {
				return health, true
			}
		}
	}
	return observe.Health{}, false
}

func newIntent(i ledger.Intent) Intent {
	return Intent{
		Number: i.ID, Offer: i.Offer, Rail: i.Rail, Account: i.Account, Network: i.Network, Asset: i.Asset,
		From: i.From, Nonce: i.Nonce, Amount: i.Amount, AmountUSD: dollars(i.USDCents), State: string(i.State), Evidence: i.Evidence, Reason: i.Reason,
		Transaction: i.Transaction, Facilitator: i.Facilitator,
		ValidBefore: moment(i.ValidBefore), CreatedAt: moment(i.CreatedAt), UpdatedAt: moment(i.UpdatedAt),
	}
}
