package operator

import (
	"cmp"
	"context"
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

// expiryMargin is how long after its expiry an authorization may still be in a block that was not read.
const expiryMargin = 10 * time.Minute

var transactionHash = regexp.MustCompile(`^0x[0-9a-fA-F]{64}$`)

// IntentOutcome is the outcome of an x402 payment as the operator reports it.
type IntentOutcome struct {
	Network     string `json:"network"` // a CAIP-2 id or a chain's name
	From        string `json:"from"`
	Nonce       string `json:"nonce"`
	Outcome     string `json:"outcome"`               // paid or not_paid
	Transaction string `json:"transaction,omitempty"` // the hash of the transfer; only with paid
	Reason      string `json:"reason"`
}

// Intent is an x402 payment for its operator.
type Intent struct {
	Number      int64      `json:"number"`
	Offer       string     `json:"offer"`
	Rail        string     `json:"rail"`
	Account     string     `json:"account"`
	Network     string     `json:"network"`
	Asset       string     `json:"asset"`
	From        string     `json:"from"`
	Nonce       string     `json:"nonce"`
	Amount      int64      `json:"amount_atomic"`
	AmountUSD   *offer.USD `json:"amount_usd"`
	State       string     `json:"state"`
	Evidence    string     `json:"evidence,omitempty"` // of a settled one: facilitator (a claim) or chain
	Reason      string     `json:"reason"`
	Transaction string     `json:"transaction"`
	Facilitator string     `json:"facilitator"`
	ValidBefore string     `json:"valid_before"`
	CreatedAt   string     `json:"created_at"`
	UpdatedAt   string     `json:"updated_at"`
	Waiting     string     `json:"waiting,omitempty"` // what the outcome waits for; empty if it is known
}

// Intents is a page of x402 payments, oldest first.
type Intents struct {
	Intents []Intent `json:"intents"`
	Next    *int64   `json:"next"` // the number above which the list continues; null at its end
}

// Intents lists open payments numbered above after, and what each waits for.
func (s *Service) Intents(ctx context.Context, after int64, limit int) (Intents, error) {
	open, err := s.Ledger.OpenIntents(ctx, s.Offer.ID, after, limit+1)
	if err != nil {
		return Intents{}, unreadable(err)
	}
	open, next := cut(open, limit, func(i ledger.Intent) int64 { return i.ID })
	page, now := Intents{[]Intent{}, next}, s.Now()
	for _, i := range open {
		row := newIntent(i)
		row.Waiting = cmp.Or(s.decides(i, false, now), "for the operator, who resolves it")
		page.Intents = append(page.Intents, row)
	}
	return page, nil
}

// Claims lists payments numbered above after that only a facilitator or the operator reported as settled.
func (s *Service) Claims(ctx context.Context, after int64, limit int) (Intents, error) {
	claims, err := s.Ledger.Claims(ctx, s.Offer.ID, after, limit+1)
	if err != nil {
		return Intents{}, unreadable(err)
	}
	claims, next := cut(claims, limit, func(i ledger.Intent) int64 { return i.ID })
	page := Intents{[]Intent{}, next}
	for _, i := range claims {
		page.Intents = append(page.Intents, newIntent(i))
	}
	return page, nil
}

// Resolve sets the outcome of a payment that is open or only claimed. It is refused while another source will decide.
// The outcome is a claim, which the chain replaces whenever it is read. The same again changes nothing.
func (s *Service) Resolve(ctx context.Context, o IntentOutcome) (Intent, error) {
	key, err := o.key()
	if err != nil {
		return Intent{}, err
	}
	s.acting.Lock()
	defer s.acting.Unlock()
	stored, err := s.payment(ctx, key)
	if err != nil {
		return Intent{}, err
	}
	paid, hash := o.Outcome == "paid", strings.ToLower(o.Transaction)
	change, err := s.change(stored, paid, hash)
	if err != nil || change == nil {
		return newIntent(stored), err
	}
	if waiting := s.decides(stored, paid, s.Now()); waiting != "" {
		return Intent{}, refuse(Conflict, "this payment cannot be resolved by hand yet; wait %s", waiting)
	}
	err = change(ctx)
	if errors.Is(err, ledger.ErrTransaction) {
		return Intent{}, refuse(Conflict, "another payment already has this transaction; give the transaction of this payment, or resolve the other one as not_paid if it is wrong")
	}
	if errors.Is(err, ledger.ErrIntentState) {
		return Intent{}, refuse(Conflict, "this payment was resolved by another request at the same moment; list the open payments again")
	}
	if err != nil {
		return Intent{}, unreadable(err)
	}
	s.Logger.Info("the operator resolved a payment",
		"network", stored.Network, "nonce", stored.Nonce, "state", string(stored.State), "outcome", o.Outcome, "reason", o.Reason)
	resolved, _, err := s.Ledger.Intent(ctx, key)
	if err != nil {
		return Intent{}, &Error{Unavailable, "the payment is resolved, but the ledger cannot be read now; read the server's log for the reason", err}
	}
	return newIntent(resolved), nil
}

// change returns the function that sets the outcome; nil if it is set already. The payer gets a code; the operator's
// reason is only in the log.
func (s *Service) change(i ledger.Intent, paid bool, hash string) (func(context.Context) error, error) {
	key, claim := i.IntentKey, i.State == ledger.IntentSettled && i.Evidence == ledger.EvidenceFacilitator
	byOperator := i.State == ledger.IntentRefused && i.Reason == x402.ReasonOperator
	switch {
	case paid && claim && i.Transaction == hash, !paid && byOperator:
		return nil, nil
	case paid && claim:
		return nil, refuse(Conflict, "this payment is already settled by the claim of transaction %s; if that is wrong, resolve it as not_paid first", i.Transaction)
	case paid && i.State == ledger.IntentSettling:
		return func(ctx context.Context) error {
			return s.Ledger.SettleIntent(ctx, key, hash, nil, ledger.EvidenceFacilitator)
		}, nil
	case paid && byOperator:
		return func(ctx context.Context) error { return s.Ledger.ClaimRefused(ctx, key, hash, x402.ReasonOperator) }, nil
	case !paid && i.State == ledger.IntentSettling:
		return func(ctx context.Context) error { return s.Ledger.RefuseIntent(ctx, key, x402.ReasonOperator) }, nil
	case !paid && claim:
		return func(ctx context.Context) error { return s.Ledger.RetractClaim(ctx, key, x402.ReasonOperator) }, nil
	default:
		return nil, refuse(Conflict, "this payment is already %s for good; list the open ones with 'caddy pay-offer intents'", i.State)
	}
}

// key checks the request and returns the key of the authorization.
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
		err = refuse(Invalid, "from or nonce is missing; copy both from 'caddy pay-offer intents'")
	case o.Outcome != "paid" && o.Outcome != "not_paid":
		err = refuse(Invalid, "the outcome %.20q is unknown; write paid or not_paid", o.Outcome)
	case o.Outcome == "paid" && (!transactionHash.MatchString(o.Transaction) || strings.Trim(o.Transaction[2:], "0") == ""):
		err = refuse(Invalid, "the hash of the transaction is missing or wrong; copy it from the block explorer: 0x and 64 hexadecimal digits")
	case o.Outcome == "not_paid" && o.Transaction != "":
		err = refuse(Invalid, "not_paid takes no transaction; leave the transaction out")
	}
	return ledger.IntentKey{
		Network: network.CAIP2(), Asset: network.USDC, From: o.From, Nonce: o.Nonce,
	}, err
}

// payment finds a payment of this offer.
func (s *Service) payment(ctx context.Context, key ledger.IntentKey) (ledger.Intent, error) {
	found, known, err := s.Ledger.Intent(ctx, key)
	switch {
	case err != nil:
		return found, unreadable(err)
	case !known || found.Offer != s.Offer.ID:
		return found, refuse(Unknown, "no payment of a running offer has this network, payer and nonce; compare them with 'caddy pay-offer intents'")
	default:
		return found, nil
	}
}

// decides returns what must happen before the operator may resolve a payment; empty if nothing. While the chain is
// read, the chain decides. An authorization that can still be settled cannot be declared unpaid.
func (s *Service) decides(i ledger.Intent, paid bool, now time.Time) string {
	health, configured := s.chainHealth(i.Network)
	end := time.Unix(i.ValidBefore, 0).Add(expiryMargin)
	switch {
	case i.State == ledger.IntentSettling && i.Leased(now):
		return "for a running attempt to settle it: about a minute"
	case !configured:
		return "for its chain, which is read at a public endpoint because its rail was removed; add a usdc rail on " + i.Network + " to the configuration"
	case health.Source == "chain" && !(health.Blind && health.LastError != ""):
		return "for its chain, which is read automatically"
	case !paid && now.Before(end):
		return "until " + timestamp(end.Unix()) + ", because its authorization can be settled until then"
	default:
		return ""
	}
}

// chainHealth is the health of the rail on a network; false if no configured rail is on it.
func (s *Service) chainHealth(network string) (observe.Health, bool) {
	for _, rail := range s.Offer.USDC() {
		for _, health := range s.Health() {
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
		From: i.From, Nonce: i.Nonce, Amount: i.Amount, AmountUSD: (*offer.USD)(i.USDCents), State: string(i.State), Evidence: i.Evidence, Reason: i.Reason,
		Transaction: i.Transaction, Facilitator: i.Facilitator,
		ValidBefore: timestamp(i.ValidBefore), CreatedAt: timestamp(i.CreatedAt), UpdatedAt: timestamp(i.UpdatedAt),
	}
}
