package operator

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
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
	open, next := cutPage(open, limit, func(i ledger.Intent) int64 { return i.ID })
	page, now := Intents{[]Intent{}, next}, s.Now()
	for _, i := range open {
		row := newIntent(i)
		row.Waiting = cmp.Or(s.obstacle(i, false, now), "for the operator, who resolves it")
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
	claims, next := cutPage(claims, limit, func(i ledger.Intent) int64 { return i.ID })
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
	s.changing.Lock()
	defer s.changing.Unlock()
	stored, err := s.payment(ctx, key)
	if err != nil {
		return Intent{}, err
	}
	paid, hash := o.Outcome == "paid", strings.ToLower(o.Transaction)
	change, err := s.change(stored, paid, hash)
	if err != nil || change == nil {
		return newIntent(stored), err
	}
	if waiting := s.obstacle(stored, paid, s.Now()); waiting != "" {
		return Intent{}, refuse(Conflict, "this payment cannot be resolved by hand yet; wait %s", waiting)
	}
	resolved, err := s.Ledger.Apply(ctx, key, *change)
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
	return newIntent(resolved), nil
}

// change returns the change that sets the outcome; nil if it is set already. The payer gets a code; the operator's
// reason is only in the log.
func (s *Service) change(i ledger.Intent, paid bool, hash string) (*ledger.IntentChange, error) {
	stage := i.Stage(s.Now())
	byOperator := stage == accounting.StageRefused && i.Reason == accounting.ReasonOperator
	switch {
	case paid && stage == accounting.StageClaimed && i.Transaction == hash, !paid && byOperator:
		return nil, nil
	case paid && stage == accounting.StageClaimed:
		return nil, refuse(Conflict, "this payment is already settled by the claim of transaction %s; if that is wrong, resolve it as not_paid first", i.Transaction)
	case stage == accounting.StageProven, stage == accounting.StageRefused && !byOperator:
		return nil, refuse(Conflict, "this payment is already %s for good; list the open ones with 'caddy pay-offer intents'", i.State)
	case paid:
		return &ledger.IntentChange{Event: accounting.EventOperatorPaid, Transaction: hash}, nil
	default:
		return &ledger.IntentChange{Event: accounting.EventOperatorUnpaid, Reason: accounting.ReasonOperator}, nil
	}
}

// key checks the request and returns the key of the authorization.
func (i IntentOutcome) key() (ledger.IntentKey, error) {
	network, err := offer.LookupNetwork(i.Network)
	if err != nil {
		return ledger.IntentKey{}, refuse(Invalid, "network: %s", err)
	}
	if err := manual.CheckReason(i.Reason); err != nil {
		return ledger.IntentKey{}, invalid(err)
	}
	switch {
	case i.From == "" || i.Nonce == "":
		missing := map[bool]string{true: "from", false: "nonce"}[i.From == ""]
		err = refuse(Invalid, "%s is missing; copy it from 'caddy pay-offer intents'", missing)
	case i.Outcome != "paid" && i.Outcome != "not_paid":
		err = refuse(Invalid, "the outcome %.20q is unknown; write paid or not_paid", i.Outcome)
	case i.Outcome == "paid" && (!transactionHash.MatchString(i.Transaction) || strings.Trim(i.Transaction[2:], "0") == ""):
		err = refuse(Invalid, "transaction (--paid): the hash is missing or wrong; copy it from the block explorer: 0x and 64 hexadecimal digits")
	case i.Outcome == "not_paid" && i.Transaction != "":
		err = refuse(Invalid, "not_paid takes no transaction; leave the transaction out")
	}
	return ledger.IntentKey{
		Network: network.CAIP2(), Asset: network.USDC, From: i.From, Nonce: i.Nonce,
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

// obstacle returns what must happen before the operator may resolve a payment; empty if nothing. While the chain is
// read, the chain decides. An authorization that can still be settled cannot be declared unpaid.
func (s *Service) obstacle(i ledger.Intent, paid bool, now time.Time) string {
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
