package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/manual"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// ReceiptEntry is what an operator enters or changes.
type ReceiptEntry struct {
	Action      string      `json:"action"`          // enter, correct, reverse, restore, refund, value or redact
	Offer       string      `json:"offer,omitempty"` // its id; it may be left out where there is one alone
	Rail        string      `json:"rail"`
	Reference   string      `json:"reference"`
	Amount      json.Number `json:"amount,omitempty"`      // as in 42 or "42.50": in US dollars; of a refund in the payment's own unit
	Transaction string      `json:"transaction,omitempty"` // by which a refund went back on the chain; to restore, whose refund alone
	Date        string      `json:"date,omitempty"`        // a day (UTC) or a moment, as in 2026-11-20 or 2026-11-20T15:04:05+01:00
	Reason      string      `json:"reason,omitempty"`
}

// act does what an entry asks for, and returns the receipt as it stands then.
type act func(d *Desk, ctx context.Context, e manual.Entry) (Receipt, error)

// action is one thing that an entry can ask for.
type action struct {
	name                      string
	amount, date, transaction bool // what else it takes
	act                       act
}

// actions are all of them.
var actions = []action{
	{"enter", true, true, false, (*Desk).entered},
	{"correct", true, true, false, answered((*Desk).correct)},
	{"reverse", false, false, false, answered((*Desk).reverse)},
	{"restore", false, false, true, answered((*Desk).restore)},
	{"refund", true, true, true, (*Desk).refund},
	{"value", true, false, false, answered((*Desk).value)},
	{"redact", false, false, false, (*Desk).redact},
}

// answered is an action that has nothing to say but the receipt as it stands then.
func answered(enter func(*Desk, context.Context, manual.Entry) (ledger.Receipt, error)) act {
	return func(d *Desk, ctx context.Context, e manual.Entry) (Receipt, error) {
		receipt, err := enter(d, ctx, e)
		return d.newReceipt(receipt), err
	}
}

// Enter does what an entry asks for, and returns the receipt as it stands then.
func (d *Desk) Enter(ctx context.Context, r ReceiptEntry) (Receipt, error) {
	i := slices.IndexFunc(actions, func(a action) bool { return a.name == r.Action })
	if i < 0 {
		return Receipt{}, refuse(Invalid, "the action must be enter, correct, reverse, restore, refund, value or redact")
	}
	entry, err := r.entry(actions[i])
	if err != nil {
		return Receipt{}, invalid(err)
	}
	d.acting.Lock()
	defer d.acting.Unlock()
	receipt, err := actions[i].act(d, ctx, entry)
	if err == nil {
		err = d.withReturns(ctx, &receipt)
	}
	switch {
	case err == nil:
		if receipt.Testnet && receipt.Evidence != string(ledger.LevelChain) { // of a chain's, test money counts until real money comes
			receipt.Said = append(receipt.Said, "this is a test payment, and counts in no sum")
		}
		if _, err := time.Parse(time.DateOnly, r.Date); err == nil {
			receipt.Said = append(receipt.Said, r.Date+" is taken as its beginning in UTC, "+r.Date+"T00:00:00Z")
		}
		return receipt, nil
	case errors.As(err, new(*Error)):
		return Receipt{}, err
	case errors.Is(err, ledger.ErrSighting):
		return Receipt{}, invalid(err)
	default:
		return Receipt{}, notStored(err)
	}
}

func (r ReceiptEntry) entry(a action) (manual.Entry, error) {
	entry := manual.Entry{Rail: r.Rail, Reference: r.Reference, Transaction: r.Transaction, Reason: r.Reason}
	for _, given := range []struct {
		name, value string
		taken       bool
	}{{"amount", r.Amount.String(), a.amount}, {"date", r.Date, a.date}, {"transaction", r.Transaction, a.transaction}} {
		if given.value != "" && !given.taken {
			return entry, fmt.Errorf("the action %s takes no %s; leave it out", a.name, given.name)
		}
	}
	var err error
	switch {
	case a.name == "refund":
		entry.Refund = r.Amount.String()
	case r.Amount != "":
		if entry.Amount, err = manual.ParseAmount(r.Amount.String()); err != nil {
			return entry, err
		}
	}
	if r.Date != "" {
		entry.OccurredAt, err = manual.ParseDate(r.Date, time.UTC)
	}
	return entry, err
}

// entered is enter, and warns of what a provider tells of by itself.
func (d *Desk) entered(ctx context.Context, e manual.Entry) (Receipt, error) {
	receipt, err := d.enter(ctx, e)
	row := d.newReceipt(receipt)
	told := func(h observe.Health) bool {
		return h.Rail == e.Rail && (h.Source == "webhook" || h.Source == "provider")
	}
	if receipt.Version == 1 && slices.ContainsFunc(d.Health(), told) {
		row.Said = []string{"the provider tells of the payments of the rail " + e.Rail +
			" under their own ids: if this is one of them and its id another, it counts twice; reverse this entry then"}
	}
	return row, err
}

// enter records money that arrived. The same again changes nothing.
func (d *Desk) enter(ctx context.Context, e manual.Entry) (ledger.Receipt, error) {
	account, err := d.takes(e.Rail)
	if err != nil {
		return ledger.Receipt{}, err
	}
	if err := e.Check(d.Now()); err != nil {
		return ledger.Receipt{}, invalid(err)
	}
	if e.Amount == 0 {
		return ledger.Receipt{}, refuse(Invalid, "the amount is missing; write for example 42 or 42.50, in US dollars")
	}
	stored, found, err := d.find(ctx, e)
	if err != nil {
		return ledger.Receipt{}, err
	}
	if found {
		return stored, again(stored, e)
	}
	if err := manual.CheckPublishable(e.Reference); err != nil {
		return ledger.Receipt{}, invalid(err)
	}
	stored = ledger.Receipt{
		Offer: account.Offer, Account: account.ID, Rail: e.Rail, ExternalID: e.Reference, OccurredAt: d.Now().Unix(),
	}
	return d.add(ctx, e.Entered(stored, d.Now()))
}

// again is an entry of a reference that has a receipt already.
func again(stored ledger.Receipt, e manual.Entry) error {
	switch {
	case stored.Status == ledger.StatusReversed:
		return refuse(Conflict, "%q was entered and reversed; restore it, or correct it with what is right", e.Reference)
	case stored.EvidenceLevel != ledger.LevelManual:
		return refuse(Conflict, "%q is recorded already, with the evidence %q; there is nothing to enter", e.Reference, stored.EvidenceLevel)
	case e.Amount == offer.USD(stored.Amount) && sameTime(stored.OccurredAt, e.OccurredAt):
		return nil
	default:
		return refuse(Conflict, "%q is entered already, with %s %s of %s; correct it if that is wrong, or give another payment a reference of its own",
			e.Reference, offer.USD(stored.Amount).Decimal(), stored.Asset, moment(stored.OccurredAt))
	}
}

// sameTime reports whether an entry, with a time or without, is of the time that
// stands. A day is the same wherever it began: at midnight in the zone of another
// machine, or in UTC. Two
// days that begin in one zone are two.
func sameTime(stored int64, at time.Time) bool {
	if at.IsZero() || at.Unix() == stored {
		return true
	}
	apart := time.Unix(stored, 0).Sub(at)
	if hour, minute, second := at.Clock(); hour+minute+second > 0 || apart%(24*time.Hour) == 0 {
		return false
	}
	_, east := at.Zone()
	begun := apart - time.Duration(east)*time.Second                                      // since midnight in UTC
	return begun%(15*time.Minute) == 0 && -14*time.Hour <= begun && begun <= 12*time.Hour // as zones are
}

// changes reports whether a correction says another amount or time than stands.
func changes(stored ledger.Receipt, e manual.Entry) bool {
	return e.Amount != 0 && int64(e.Amount) != stored.Amount ||
		!e.OccurredAt.IsZero() && (e.OccurredAt.Unix() != stored.OccurredAt || e.Day() != manual.Day(stored))
}

// correct gives an entry another amount, another time, or both, and undoes its
// reversal. Receipts with other evidence are refused.
func (d *Desk) correct(ctx context.Context, e manual.Entry) (ledger.Receipt, error) {
	stored, err := d.known(ctx, e)
	if err != nil {
		return ledger.Receipt{}, err
	}
	if e.Amount == 0 && e.OccurredAt.IsZero() {
		return ledger.Receipt{}, refuse(Invalid, "there is nothing to correct; give the right amount or date, or use restore to undo a reversal")
	}
	switch stored.EvidenceLevel {
	case ledger.LevelManual:
	case ledger.LevelChain:
		return ledger.Receipt{}, refuse(Conflict, "%q is a transfer on its chain, which decides", e.Reference)
	default:
		return ledger.Receipt{}, refuse(Conflict, "%q rests on the provider's own word (%s); refund it at the provider, or reverse it if the money is not yours",
			e.Reference, stored.EvidenceLevel)
	}
	if e.Amount != 0 && int64(e.Amount) < stored.Refunded {
		return ledger.Receipt{}, refuse(Conflict, "%q cannot be corrected to less than the %s that went back of it; restore it first, which takes your refunds back",
			e.Reference, offer.UnitOf(stored.Asset).Format(stored.Refunded))
	}
	if err := d.refundedBefore(ctx, stored, e); err != nil {
		return ledger.Receipt{}, err
	}
	if stored.Status != ledger.StatusReversed && !changes(stored, e) {
		return stored, nil
	}
	return d.add(ctx, e.Corrected(stored, d.Now()))
}

// refundedBefore refuses a date after one of the payment's own refunds: no money goes
// back before it came. Of one day both may be.
func (d *Desk) refundedBefore(ctx context.Context, stored ledger.Receipt, e manual.Entry) error {
	if e.OccurredAt.IsZero() {
		return nil
	}
	words, err := d.Ledger.Returns(ctx, stored.Offer, stored.Account, stored.ExternalID)
	if err != nil {
		return err
	}
	year, month, date := e.OccurredAt.Date()
	begun := time.Date(year, month, date, 0, 0, 0, 0, e.OccurredAt.Location()).Unix()
	for _, w := range words {
		if w.Gone && w.Kind == ledger.ReturnRefund && w.At < begun {
			return refuse(Conflict, "%q cannot be dated %s, for %s of it went back on %s, which is before; restore that refund first, and enter it again with its right date",
				e.Reference, moment(e.OccurredAt.Unix()), offer.UnitOf(stored.Asset).Format(w.Amount), moment(w.At))
		}
	}
	return nil
}

// reverse takes a receipt out of the sums: the money is not, or no longer, the
// operator's. It stays in the ledger as reversed and can be restored. A
// transfer on a chain is refused.
func (d *Desk) reverse(ctx context.Context, e manual.Entry) (ledger.Receipt, error) {
	stored, err := d.known(ctx, e)
	if err != nil {
		return ledger.Receipt{}, err
	}
	switch {
	case stored.EvidenceLevel == ledger.LevelChain:
		return ledger.Receipt{}, refuse(Conflict, "%q is a transfer on its chain and stands as long as the chain has it; enter what you sent back as a refund", e.Reference)
	case stored.Status == ledger.StatusDropped:
		return ledger.Receipt{}, refuse(Conflict, "%q never became money; there is nothing to reverse", e.Reference)
	}
	receipt, err := d.add(ctx, e.Reversed(stored, d.Now()))
	if err == nil && receipt.Status != ledger.StatusReversed {
		err = refuse(Conflict, "%q was not reversed: the clock of this machine is behind an earlier entry; set the clock and reverse it again", e.Reference)
	}
	return receipt, err
}

// takes is the account of a rail that takes entries.
func (d *Desk) takes(name string) (ledger.Account, error) {
	if rail, found := d.Offer.Rail(name); found && rail.Methods(d.Offer, offer.Live{})[0].Network != offer.Fiat {
		return ledger.Account{}, refuse(Conflict, "the rail %s is read from its chain, which decides what arrived; there is nothing to enter", name)
	}
	if i := slices.IndexFunc(d.Accounts, func(a ledger.Account) bool { return a.Rail == name }); i >= 0 {
		return d.Accounts[i], nil
	}
	return ledger.Account{}, d.noRail(name)
}

func (d *Desk) noRail(rail string) error {
	var names []string
	for _, r := range d.Offer.Rails {
		names = append(names, r.Name())
	}
	return refuse(Unknown, "no rail is named %.80q; there are: %s", rail, strings.Join(names, ", "))
}

// known is the receipt that an entry with a reason speaks of.
func (d *Desk) known(ctx context.Context, e manual.Entry) (ledger.Receipt, error) {
	if err := cmp.Or(e.Check(d.Now()), manual.CheckReason(e.Reason)); err != nil {
		return ledger.Receipt{}, invalid(err)
	}
	stored, found, err := d.find(ctx, e)
	if err == nil && !found {
		err = refuse(Unknown, "no receipt of the rail %s has the reference %q; receipts are listed with 'caddy pay-offer received --receipts'", e.Rail, e.Reference)
	}
	return stored, err
}

// find looks for a receipt in the rail's account, then in those that the rail
// had before its configuration was changed.
func (d *Desk) find(ctx context.Context, e manual.Entry) (ledger.Receipt, bool, error) {
	remembered, err := d.Ledger.Accounts(ctx, d.Offer.ID)
	if err != nil {
		return ledger.Receipt{}, false, err
	}
	accounts := slices.Concat(d.Accounts, remembered)
	accounts = slices.DeleteFunc(accounts, func(a ledger.Account) bool { return a.Rail != e.Rail })
	if len(accounts) == 0 {
		return ledger.Receipt{}, false, d.noRail(e.Rail)
	}
	for _, account := range accounts {
		stored, found, err := d.Ledger.Receipt(ctx, d.Offer.ID, account.ID, e.Reference)
		if found || err != nil {
			return stored, found, err
		}
	}
	return ledger.Receipt{}, false, nil
}

// add commits what is said of a payment. Of two entries that are made at one time
// on several instances, one is told that the other one holds.
func (d *Desk) add(ctx context.Context, s ledger.Sighting) (ledger.Receipt, error) {
	receipts, err := d.Ledger.Record(ctx, nil, s)
	if errors.Is(err, ledger.ErrChanged) {
		err = refuse(Conflict, "%q was changed elsewhere at the same moment, and nothing was done; look at what stands, and say it again if it is still right", s.ExternalID)
	}
	if err != nil {
		return ledger.Receipt{}, err
	}
	return receipts[0], nil
}
