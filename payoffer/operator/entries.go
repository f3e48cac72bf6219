package operator

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

// action is one thing that an entry can ask for. It gets the receipt of the entry, without number if there is none, and
// returns the receipt after it, and hints for the operator.
type action struct {
	name    string
	members []string // the optional members that it takes
	run     func(s *Service, ctx context.Context, e manual.Entry, stored ledger.Receipt) (ledger.Receipt, []string, error)
}

var actions = []action{
	{"enter", []string{"amount", "date"}, (*Service).enter},
	{"void", nil, (*Service).void},
	{"restore", []string{"transaction"}, (*Service).restore},
	{"refund", []string{"amount", "date", "transaction"}, (*Service).refund},
	{"value", []string{"amount"}, (*Service).stateValue},
	{"own", nil, (*Service).markOwn},
	{"redact", nil, (*Service).redact},
}

// Enter performs the action of an entry and returns the receipt after it.
func (s *Service) Enter(ctx context.Context, e manual.Entry) (Receipt, error) {
	i := slices.IndexFunc(actions, func(a action) bool { return a.name == e.Action })
	if i < 0 {
		return Receipt{}, refuse(Invalid, "the action %.20q is unknown; valid actions: enter, void, restore, refund, value, own, redact", e.Action)
	}
	for name, value := range map[string]string{"amount": e.Amount.String(), "date": e.Date, "transaction": e.Transaction} {
		if value != "" && !slices.Contains(actions[i].members, name) {
			return Receipt{}, refuse(Invalid, "the action %s takes no %s; leave it out", e.Action, name)
		}
	}
	if err := e.Parse(s.Now()); err != nil {
		return Receipt{}, invalid(err)
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	var row ledger.Receipt
	var receipt Receipt
	var hints []string
	stored, found, err := s.find(ctx, e)
	if err == nil && !found && e.Action != "enter" {
		err = refuse(Unknown, "no receipt of the rail %s has the reference %q; list them with 'caddy pay-offer received --receipts'", e.Rail, e.Reference)
	}
	if err == nil {
		row, hints, err = actions[i].run(s, ctx, e, stored)
	}
	if err == nil {
		var testCounts bool
		if testCounts, err = report.TestCounts(ctx, s.Ledger, s.Offer); err == nil {
			receipt, err = s.newReceipt(ctx, row, testCounts)
		}
	}
	switch {
	case err == nil:
		receipt.Hints = append(hints, receipt.Hints...)
		if receipt.Testnet && row.EvidenceLevel != ledger.LevelChain { // test money on a chain can count
			receipt.Hints = append(receipt.Hints, "this is a test payment and is not counted")
		}
		return receipt, nil
	case errors.As(err, new(*Error)):
		return Receipt{}, err
	case errors.Is(err, ledger.ErrObservation):
		return Receipt{}, invalid(err)
	default:
		return Receipt{}, notStored(err)
	}
}

// enter records money that arrived, or enters a voided entry again. The same entry again changes nothing.
func (s *Service) enter(ctx context.Context, e manual.Entry, stored ledger.Receipt) (ledger.Receipt, []string, error) {
	account, err := s.manualAccount(e.Rail)
	if err != nil {
		return ledger.Receipt{}, nil, err
	}
	if e.USD == 0 {
		return ledger.Receipt{}, nil, refuse(Invalid, "the amount is missing; write for example 42 or 42.50, in US dollars")
	}
	var hints []string
	if s.isReportedByProvider(e.Rail) {
		hints = []string{"the provider reports the payments of the rail " + e.Rail + " under its own ids: if this is one of them, " +
			"and its id is another, it is counted twice; then void this entry"}
	}
	if len(s.Offer.Gates) > 0 && e.USD < s.Offer.Amount {
		hints = append(hints, "it is less than the price: it opens a gate only if it reached the price of its time")
	}
	if stored.ID == 0 {
		if err := manual.CheckPublishable(e.Reference); err != nil {
			return ledger.Receipt{}, nil, invalid(err)
		}
		stored = ledger.Receipt{Offer: account.Offer, Account: account.ID, Rail: e.Rail, ExternalID: e.Reference}
	} else if reenter, err := canReenter(stored, e); !reenter || err != nil {
		return stored, hints, err
	} else if err := s.requireNewReason(ctx, stored, e); err != nil {
		return stored, hints, err
	}
	if !e.Sure {
		references, err := s.Ledger.References(ctx, stored.Account)
		if err != nil {
			return ledger.Receipt{}, nil, err
		}
		if typo := e.Typo(s.Offer.Amount, references, s.Now()); typo != "" {
			return ledger.Receipt{}, nil, refuse(Conflict, "%s; if that is right, enter it again with --sure (in JSON \"sure\": true)", typo)
		}
	}
	receipt, err := s.add(ctx, e.Enter(stored, s.Now()))
	return receipt, hints, stillDisputed(receipt, err)
}

// canReenter reports whether an entry replaces the one that is stored, which must have been voided. It returns
// false if both are the same.
func canReenter(stored ledger.Receipt, e manual.Entry) (bool, error) {
	switch {
	case stored.EvidenceLevel != ledger.LevelManual:
		return false, refuse(Conflict, "%q is already recorded by its source (evidence %q); do not enter it again", e.Reference, stored.EvidenceLevel)
	case stored.Status == ledger.StatusReversed && int64(e.USD) < stored.Refunded:
		return false, refuse(Conflict, "%s of %q was refunded, which is more than this amount; restore the refund first",
			offer.UnitOf(stored.Asset).Format(stored.Refunded), e.Reference)
	case stored.Status == ledger.StatusReversed:
		return true, nil
	case int64(e.USD) == stored.Amount && e.IsDated(stored):
		return false, nil
	default:
		return false, refuse(Conflict, "%q is entered already, with %s %s of %s; if that is wrong, void it and enter it again, "+
			"or give another payment another reference",
			e.Reference, offer.USD(stored.Amount).Decimal(), stored.Asset, timestamp(stored.OccurredAt))
	}
}

// requireNewReason refuses to enter a voided payment again without a reason that no entry of it has. A request
// that is only sent again must not count the money.
func (s *Service) requireNewReason(ctx context.Context, stored ledger.Receipt, e manual.Entry) error {
	history, err := s.Ledger.History(ctx, s.Offer.ID, stored.ID, stored.ID)
	if err != nil {
		return err
	}
	if e.Reason == "" || slices.ContainsFunc(history, func(t ledger.Transition) bool { return t.Cause == "entered" && t.Note == e.Reason }) {
		return refuse(Conflict, "%q was entered and voided; to enter it again, give a reason that was not used for it before", e.Reference)
	}
	return nil
}

// void takes a receipt out of the totals, because the money is not the operator's. The receipt stays in the
// ledger as reversed and can be restored. A transfer on a chain is refused.
func (s *Service) void(ctx context.Context, e manual.Entry, stored ledger.Receipt) (ledger.Receipt, []string, error) {
	switch {
	case stored.EvidenceLevel == ledger.LevelChain:
		return ledger.Receipt{}, nil, refuse(Conflict, "%q is a transfer on its chain and cannot be voided; enter what you sent back as a refund", e.Reference)
	case stored.Status == ledger.StatusDropped:
		return ledger.Receipt{}, nil, refuse(Conflict, "%q was never paid; compare the reference with 'caddy pay-offer received --receipts'", e.Reference)
	}
	receipt, err := s.add(ctx, e.Void(stored, s.Now()))
	if err == nil && receipt.Status != ledger.StatusReversed {
		err = refuse(Conflict, "%q was not voided: the clock of this machine is behind an earlier entry; set the clock and void it again", e.Reference)
	}
	return receipt, nil, err
}

// restore undoes a void by the operator, except that of an entry. Without a void it undoes the refunds that
// the operator entered, or only that of a transaction.
func (s *Service) restore(ctx context.Context, e manual.Entry, stored ledger.Receipt) (ledger.Receipt, []string, error) {
	var err error
	if e.Transaction != "" {
		if e.Transaction, err = manual.ParseTransaction(stored.Asset, e.Transaction); err != nil {
			return ledger.Receipt{}, nil, invalid(err)
		}
	} else if stored.Status == ledger.StatusReversed && stored.EvidenceLevel == ledger.LevelManual {
		return stored, nil, refuse(Conflict, "%q is an entry of yours that was voided; enter it again instead, with a new reason", e.Reference)
	} else if stored.Status == ledger.StatusReversed {
		receipt, err := s.add(ctx, e.Restore(stored, s.Now()))
		return receipt, nil, stillDisputed(receipt, err)
	} else if repeated, err := s.isRepeatedRestore(ctx, e, stored); err != nil || repeated {
		return stored, nil, err
	}
	returns, err := s.Ledger.Returns(ctx, stored.Offer, stored.Account, stored.ExternalID)
	if err != nil {
		return ledger.Receipt{}, nil, err
	}
	refunds := slices.DeleteFunc(returns, func(r ledger.Return) bool {
		transaction, entered := manual.EnteredRefund(r)
		return !entered || !r.Gone || e.Transaction != "" && transaction != e.Transaction
	})
	if len(refunds) == 0 {
		return ledger.Receipt{}, nil, refuse(Conflict, "%q is %s and has no such refund by you; find the right one with 'caddy pay-offer received --receipts'", e.Reference, stored.Status)
	}
	receipt, err := s.add(ctx, e.UndoRefunds(stored, refunds))
	return receipt, nil, err
}

// isRepeatedRestore reports whether the last change was the same restore of a void. An operator who did not see
// the answer sends it again and does not mean the refunds.
func (s *Service) isRepeatedRestore(ctx context.Context, e manual.Entry, stored ledger.Receipt) (bool, error) {
	history, err := s.Ledger.History(ctx, stored.Offer, stored.ID, stored.ID)
	if err != nil || len(history) == 0 {
		return false, err
	}
	last := history[len(history)-1]
	return last.Cause == manual.CauseRestored && last.ReturnKind == ledger.ReturnReversal && last.Note == e.Reason, nil
}

// stillDisputed returns an error if the provider reports a dispute too.
func stillDisputed(r ledger.Receipt, err error) error {
	if err == nil && r.Status == ledger.StatusReversed {
		return refuse(Conflict, "%q is still disputed at the provider; answer the dispute there", r.ExternalID)
	}
	return err
}

// stateValue states what a payment is worth in US dollars if no source knows it.
func (s *Service) stateValue(ctx context.Context, e manual.Entry, stored ledger.Receipt) (ledger.Receipt, []string, error) {
	switch {
	case e.USD == 0:
		return ledger.Receipt{}, nil, refuse(Invalid, "the value is missing; write for example 42 or 42.50, in US dollars")
	case stored.USDCents != nil && stored.ValueBasis != ledger.BasisStated:
		return ledger.Receipt{}, nil, refuse(Conflict, "the value of %q is known: %s US dollars; state a value only for a payment without one",
			e.Reference, offer.USD(*stored.USDCents))
	case stored.Stated != nil && stored.Stated.USDCents == int64(e.USD):
		return stored, nil, nil
	}
	receipt, err := s.add(ctx, e.StateValue(stored, s.Now()))
	return receipt, nil, err
}

// markOwn marks a payment as the operator's own, for good: it is no payment of a customer.
func (s *Service) markOwn(ctx context.Context, e manual.Entry, stored ledger.Receipt) (ledger.Receipt, []string, error) {
	switch {
	case stored.EvidenceLevel == ledger.LevelChain:
		return ledger.Receipt{}, nil, refuse(Conflict, "%q was paid by a wallet; name its address with the option ignore_payer", e.Reference)
	case stored.Own:
		return stored, nil, nil
	}
	receipt, err := s.add(ctx, e.MarkOwn(stored))
	return receipt, nil, err
}

// redact replaces the published reference by a random one, for good.
func (s *Service) redact(ctx context.Context, e manual.Entry, stored ledger.Receipt) (ledger.Receipt, []string, error) {
	switch {
	case stored.EvidenceLevel != ledger.LevelManual:
		return ledger.Receipt{}, nil, refuse(Conflict, "%q is the id that its source assigned (%s), which proves the receipt; "+
			"only a reference of yours can be redacted", e.Reference, stored.EvidenceLevel)
	case s.isReportedByProvider(stored.Rail):
		return ledger.Receipt{}, nil, refuse(Conflict, "the provider of the rail %s reports its payments by their ids: "+
			"after a redaction, %q could be counted twice; ask the provider to remove the reference", stored.Rail, e.Reference)
	case strings.Contains(strings.ToLower(e.Reason), strings.ToLower(e.Reference)):
		return ledger.Receipt{}, nil, refuse(Invalid, "the reason is stored and repeats the reference; leave the reference out")
	}
	receipt, err := s.Ledger.Redact(ctx, stored.Offer, stored.Account, stored.ExternalID, "redacted-"+strings.ToLower(rand.Text()[:16]), e.Reason)
	if errors.Is(err, ledger.ErrRedaction) {
		err = refuse(Conflict, "%q was changed by another request at the same moment; list the receipts and try again", e.Reference)
	}
	return receipt, []string{
		"the reference was removed from the ledger; backups, logs and delivered notifications still contain it",
		"do not enter the payment again under its old reference, because it would be counted twice",
	}, err
}

// isReportedByProvider reports whether a provider reports the payments of a rail to this server.
func (s *Service) isReportedByProvider(name string) bool {
	rail, found := s.Offer.Rail(name)
	return found && rail.Source() == offer.SourceProvider && slices.ContainsFunc(s.Health(), func(h observe.Health) bool {
		return h.Rail == name && h.Source != report.SourceOperator
	})
}

// manualAccount is the account of a rail on which payments are entered.
func (s *Service) manualAccount(name string) (ledger.Account, error) {
	if rail, found := s.Offer.Rail(name); found && rail.Source() == offer.SourceChain {
		return ledger.Account{}, refuse(Conflict, "payments by %s are read from the chain and cannot be entered; wait until the chain confirms this one, "+
			"or see by 'caddy pay-offer check --live' why the chain is not read", name)
	}
	if i := slices.IndexFunc(s.Accounts, func(a ledger.Account) bool { return a.Rail == name }); i >= 0 {
		return s.Accounts[i], nil
	}
	return ledger.Account{}, s.unknownRail(name)
}

func (s *Service) unknownRail(rail string) error {
	var names []string
	for _, r := range s.Offer.Rails {
		names = append(names, r.Name())
	}
	return refuse(Unknown, "this offer has no rail %.80q; write one of %s, or add the option of that rail to the Caddyfile", rail, strings.Join(names, ", "))
}

// find looks for a receipt in the rail's account, then in the removed accounts of the rail.
func (s *Service) find(ctx context.Context, e manual.Entry) (ledger.Receipt, bool, error) {
	former, err := s.Ledger.Accounts(ctx, s.Offer.ID)
	if err != nil {
		return ledger.Receipt{}, false, err
	}
	accounts := slices.Concat(s.Accounts, former)
	accounts = slices.DeleteFunc(accounts, func(a ledger.Account) bool { return a.Rail != e.Rail })
	if len(accounts) == 0 {
		return ledger.Receipt{}, false, s.unknownRail(e.Rail)
	}
	for _, account := range accounts {
		stored, found, err := s.Ledger.Receipt(ctx, s.Offer.ID, account.ID, e.Reference)
		if found || err != nil {
			return stored, found, err
		}
	}
	return ledger.Receipt{}, false, nil
}

// add commits an observation. Of two entries at the same moment on several instances, the second one fails.
func (s *Service) add(ctx context.Context, o ledger.Observation) (ledger.Receipt, error) {
	receipts, err := s.Ledger.Record(ctx, nil, o)
	if errors.Is(err, ledger.ErrChanged) {
		err = refuse(Conflict, "%q was changed by another request at the same moment, and nothing was stored; list the receipts, and try again if it is still right", o.ExternalID)
	}
	if err != nil {
		return ledger.Receipt{}, err
	}
	return receipts[0], nil
}
