// Package manual holds the rules of an operator's entries: money that no other
// source tells of, and corrections. Each is added to the ledger with its
// reference and reason; nothing is ever deleted.
package manual

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	// assetUSD is what entries are counted in, in cents.
	assetUSD = "USD"
	// returnID names the operator's reversal among the returns of a payment.
	returnID = "operator"
)

// Causes of transitions.
const (
	causeEntered   = "entered"
	causeCorrected = "corrected"
	causeReversed  = "reversed_by_operator"
	causeRestored  = "restored_by_operator"
)

// Ledger is what a desk needs of the ledger; *ledger.Ledger is one.
type Ledger interface {
	Accounts(ctx context.Context, offer string) ([]ledger.Account, error)
	Receipt(ctx context.Context, offer, account, externalID string) (ledger.Receipt, bool, error)
	Record(ctx context.Context, cursor *ledger.Cursor, sightings ...ledger.Sighting) ([]ledger.Receipt, error)
}

// Desk takes an operator's entries for one offer. What stands in the ledger
// decides what may be entered: use one desk at a time.
type Desk struct {
	Offer *offer.Offer
	// Account is where the money of a configured rail arrives; false for a rail
	// that the offer does not have.
	Account func(rail string) (ledger.Account, bool)
	Ledger  Ledger
	Now     func() time.Time
}

// Enter records money that arrived: new, or a sale of which a shop only
// asserted that it happened, named by its sale id. The same again changes
// nothing. Errors: *Refusal, and those of the ledger.
func (d *Desk) Enter(ctx context.Context, e Entry) (ledger.Receipt, error) {
	account, err := d.takes(e.Rail)
	if err != nil {
		return ledger.Receipt{}, err
	}
	if err := e.check(d.Now()); err != nil {
		return ledger.Receipt{}, err
	}
	if e.Amount == 0 {
		return ledger.Receipt{}, refuse(Invalid, "the amount is missing; write for example 42 or 42.50, in US dollars")
	}
	stored, found, err := d.find(ctx, e)
	if err != nil {
		return ledger.Receipt{}, err
	}
	if !found {
		stored = ledger.Receipt{
			Offer: account.Offer, Account: account.ID, Rail: e.Rail, ExternalID: e.Reference, OccurredAt: d.Now().Unix(),
		}
	} else if stored.EvidenceLevel != ledger.LevelAsserted || stored.Status == ledger.StatusReversed {
		return stored, again(stored, e)
	}
	return d.record(ctx, d.payment(stored, e, causeEntered))
}

// again is an entry of a reference that has a receipt already.
func again(stored ledger.Receipt, e Entry) error {
	switch {
	case stored.Status == ledger.StatusReversed:
		return refuse(Conflict, "%q was entered and reversed; restore it, or correct it with what is right", e.Reference)
	case stored.EvidenceLevel != ledger.LevelManual:
		return refuse(Conflict, "%q is recorded already, with the evidence %q; there is nothing to enter", e.Reference, stored.EvidenceLevel)
	case !changes(stored, e):
		return nil
	default:
		return refuse(Conflict, "%q is entered already, with %s %s of %s; correct it if that is wrong, or give another payment a reference of its own",
			e.Reference, offer.USD(stored.Amount).Decimal(), stored.Asset, day(time.Unix(stored.OccurredAt, 0)))
	}
}

// changes reports whether an entry says another amount or time than stands.
func changes(stored ledger.Receipt, e Entry) bool {
	return e.Amount != 0 && int64(e.Amount) != stored.Amount ||
		!e.OccurredAt.IsZero() && e.OccurredAt.Unix() != stored.OccurredAt
}

// Correct gives an entry another amount, another time, or both, and undoes its
// reversal. Receipts with other evidence are refused. Errors as for Enter.
func (d *Desk) Correct(ctx context.Context, e Entry) (ledger.Receipt, error) {
	stored, err := d.known(ctx, e)
	if err != nil {
		return ledger.Receipt{}, err
	}
	if e.Amount == 0 && e.OccurredAt.IsZero() {
		return ledger.Receipt{}, refuse(Invalid, "there is nothing to correct; give the right amount or date, or use restore to undo a reversal")
	}
	switch stored.EvidenceLevel {
	case ledger.LevelManual:
	case ledger.LevelAsserted:
		return ledger.Receipt{}, refuse(Conflict, "%q is only asserted by the shop; enter it with the amount that arrived, which confirms it", e.Reference)
	case ledger.LevelChain:
		return ledger.Receipt{}, refuse(Conflict, "%q is a transfer on its chain, which decides", e.Reference)
	default:
		return ledger.Receipt{}, refuse(Conflict, "%q rests on the provider's own word (%s); refund it at the provider, or reverse it if the money is not yours",
			e.Reference, stored.EvidenceLevel)
	}
	reversed := stored.Status == ledger.StatusReversed
	if !reversed && !changes(stored, e) {
		return stored, nil
	}
	s := d.payment(stored, e, causeCorrected)
	s.Revision = stored.Revision + 1
	if reversed {
		s.Returns = d.takesBack(stored, false)
	}
	return d.record(ctx, s)
}

// Reverse takes a receipt out of the sums: the money is not, or no longer, the
// operator's. It stays in the ledger as reversed and can be restored. A
// transfer on a chain is refused. Errors as for Enter.
func (d *Desk) Reverse(ctx context.Context, e Entry) (ledger.Receipt, error) {
	stored, err := d.known(ctx, e)
	if err != nil {
		return ledger.Receipt{}, err
	}
	switch {
	case stored.EvidenceLevel == ledger.LevelChain:
		return ledger.Receipt{}, refuse(Conflict, "%q is a transfer on its chain and stands as long as the chain has it; what you send back is a transfer of yours and no entry here", e.Reference)
	case stored.Status == ledger.StatusDropped:
		return ledger.Receipt{}, refuse(Conflict, "%q never became money; there is nothing to reverse", e.Reference)
	}
	receipt, err := d.add(ctx, d.addendum(stored, e, causeReversed, true))
	if err == nil && receipt.Status != ledger.StatusReversed {
		err = refuse(Conflict, behind, e.Reference)
	}
	return receipt, err
}

// Restore undoes a reversal by the operator. Errors as for Enter.
func (d *Desk) Restore(ctx context.Context, e Entry) (ledger.Receipt, error) {
	stored, err := d.known(ctx, e)
	if err != nil {
		return ledger.Receipt{}, err
	}
	if stored.Status != ledger.StatusReversed {
		return ledger.Receipt{}, refuse(Conflict, "%q is not reversed but %s; there is nothing to restore", e.Reference, stored.Status)
	}
	receipt, err := d.add(ctx, d.addendum(stored, e, causeRestored, false))
	if err == nil && receipt.Status == ledger.StatusReversed {
		err = refuse(Conflict, "%q is still reversed: the provider took the money back, and its dispute is won or lost there", e.Reference)
	}
	return receipt, err
}

// behind is what keeps a reversal from taking effect.
const behind = "%q was not reversed: the clock of this machine is behind an earlier entry; set the clock and reverse it again"

// takes is the account of a rail that takes entries.
func (d *Desk) takes(rail string) (ledger.Account, error) {
	configured, ok := d.Offer.Rail(rail)
	account, known := d.Account(rail)
	if !ok || !known {
		return account, d.noRail(rail)
	}
	switch configured.(type) {
	case *offer.USDC, *offer.Bitcoin:
		return account, refuse(Conflict, "the rail %s is read from its chain, which decides what arrived; there is nothing to enter", rail)
	}
	return account, nil
}

func (d *Desk) noRail(rail string) error {
	var names []string
	for _, r := range d.Offer.Rails {
		names = append(names, r.Name())
	}
	return refuse(Unknown, "no rail is named %.80q; there are: %s", rail, strings.Join(names, ", "))
}

// known is the receipt that an entry with a reason speaks of.
func (d *Desk) known(ctx context.Context, e Entry) (ledger.Receipt, error) {
	if err := e.check(d.Now()); err != nil {
		return ledger.Receipt{}, err
	}
	if err := CheckReason(e.Reason); err != nil {
		return ledger.Receipt{}, err
	}
	stored, found, err := d.find(ctx, e)
	if err == nil && !found {
		err = refuse(Unknown, "no receipt of the rail %s has the reference %q; receipts are listed with 'caddy pay-offer received --receipts'", e.Rail, e.Reference)
	}
	return stored, err
}

// find looks for a receipt in the rail's account, then in those that the rail
// had before its configuration was changed.
func (d *Desk) find(ctx context.Context, e Entry) (ledger.Receipt, bool, error) {
	accounts, err := d.accounts(ctx, e.Rail)
	if err != nil {
		return ledger.Receipt{}, false, err
	}
	for _, account := range accounts {
		stored, found, err := d.Ledger.Receipt(ctx, d.Offer.ID, account, e.Reference)
		if found || err != nil {
			return stored, found, err
		}
	}
	return ledger.Receipt{}, false, nil
}

func (d *Desk) accounts(ctx context.Context, rail string) ([]string, error) {
	var found []string
	if configured, ok := d.Account(rail); ok {
		found = append(found, configured.ID)
	}
	remembered, err := d.Ledger.Accounts(ctx, d.Offer.ID)
	for _, account := range remembered {
		if account.Rail == rail && !slices.Contains(found, account.ID) {
			found = append(found, account.ID)
		}
	}
	if err == nil && len(found) == 0 {
		err = d.noRail(rail)
	}
	return found, err
}

// payment is what an entry says of the money itself.
func (d *Desk) payment(stored ledger.Receipt, e Entry, cause string) ledger.Sighting {
	amount, occurred := stored.Amount, stored.OccurredAt
	if e.Amount != 0 {
		amount = int64(e.Amount)
	}
	if !e.OccurredAt.IsZero() {
		occurred = e.OccurredAt.Unix()
	}
	s := d.sighting(stored, e, cause)
	s.Asset, s.Amount, s.USDCents, s.State, s.OccurredAt = assetUSD, amount, &amount, ledger.StatusConfirmed, occurred
	s.Evidence, _ = json.Marshal(map[string]string{"enteredAt": d.Now().UTC().Format(time.RFC3339)}) // it is a string
	return s
}

// addendum takes a receipt back, or gives it back.
func (d *Desk) addendum(stored ledger.Receipt, e Entry, cause string, gone bool) ledger.Sighting {
	s := d.sighting(stored, e, cause)
	s.Addendum, s.Returns = true, d.takesBack(stored, gone)
	return s
}

func (d *Desk) sighting(stored ledger.Receipt, e Entry, cause string) ledger.Sighting {
	return ledger.Sighting{
		Offer: stored.Offer, Account: stored.Account, Rail: stored.Rail, ExternalID: stored.ExternalID,
		EvidenceLevel: ledger.LevelManual, Cause: cause, Note: e.Reason,
	}
}

// takesBack is the operator's word on the whole payment. It is later than the
// one before, also within one second and after the clock was set back: what
// took effect has moved the receipt's version, and of two words on one version
// the one that gives the money back comes second.
func (d *Desk) takesBack(stored ledger.Receipt, gone bool) []ledger.Return {
	word := ledger.Return{
		ID: returnID, Kind: ledger.ReturnReversal, Gone: gone,
		At: max(d.Now().Unix(), stored.UpdatedAt), Rank: 2 * int(stored.Version),
	}
	if !gone {
		word.Rank++
	}
	return []ledger.Return{word}
}

// record commits what is said of a payment. Of two entries that are made at
// one time on several instances, one is told that the other one holds.
func (d *Desk) record(ctx context.Context, s ledger.Sighting) (ledger.Receipt, error) {
	receipt, err := d.add(ctx, s)
	if err == nil && (receipt.Amount != s.Amount || receipt.OccurredAt != s.OccurredAt || receipt.Revision != s.Revision) {
		err = refuse(Conflict, "%q was recorded elsewhere at the same moment; look at what stands and correct it", s.ExternalID)
	}
	return receipt, err
}

func (d *Desk) add(ctx context.Context, s ledger.Sighting) (ledger.Receipt, error) {
	receipts, err := d.Ledger.Record(ctx, nil, s)
	if err != nil {
		return ledger.Receipt{}, err
	}
	return receipts[0], nil
}
