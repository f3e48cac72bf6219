package evm

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// behindFor is how long a cycle reads for accounts that are behind. Then it reads for the others again.
	behindFor = 2 * time.Second
	// recordAtOnce bounds the rows of one ledger transaction, and the first page of rows.
	recordAtOnce = 200
)

// account is one observer in one cycle, with its state in the ledger.
type account struct {
	*Observer
	stored ledger.AccountState
	rows   []ledger.Receipt
	// origin is the last block whose payments do not count, -1 while unknown. covered is the block up to which everything
	// is recorded and final, and witnessed the one up to which a second endpoint has been read too.
	origin, covered, witnessed int64
	// watchedSince is when the account was first watched, in Unix seconds. Earlier payments are backfilled.
	watchedSince int64
	// err is why the account cannot be read. undecided means that a payment cannot be decided, and problem is why.
	err, problem error
	undecided    bool
}

// cycle is one reading of the chain.
type cycle struct {
	*sources
	accounts []*account
	// through is the last block that was read for the accounts near the head, and missing that some of it is unknown.
	through uint64
	missing bool
}

// poll runs a cycle. more means that accounts were behind.
func (c *Chain) poll(ctx context.Context) (more bool, problem error) {
	c.cycling.Lock()
	defer c.cycling.Unlock()
	cy := &cycle{sources: &sources{
		Chain: c, to: make(map[common.Address]bool), anchors: make(map[string]uint64), contested: make(map[common.Hash]string),
	}}
	c.mu.Lock()
	for o := range c.observers {
		cy.accounts = append(cy.accounts, &account{Observer: o})
	}
	c.mu.Unlock()
	if len(cy.accounts) == 0 {
		return false, nil
	}
	blind := cy.load(ctx)
	if blind == nil {
		blind = cy.choose(ctx)
	}
	if blind == nil {
		c.headAge.Store(new(c.config.Now().Sub(time.Unix(int64(cy.lowest(Latest).Time), 0))))
		for _, a := range cy.accounts {
			a.err = cmp.Or(a.err, cy.findOrigin(ctx, a))
		}
		blind = cy.readNear(ctx)
	}
	if blind == nil {
		more = cy.readBehind(ctx)
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	problem = cmp.Or(blind, cy.problem)
	c.log(problem, cy.contested)
	for _, a := range cy.accounts {
		a.err = cmp.Or(a.err, blind)
		cy.apply(a)
		problem = cmp.Or(problem, a.err, a.problem)
	}
	return more, problem
}

// load reads the accounts' states from the ledger.
func (cy *cycle) load(ctx context.Context) error {
	id := cy.accounts[0].account
	states, err := cy.config.Ledger.AccountStates(ctx, id[:strings.LastIndexByte(id, '/')+1])
	if err != nil {
		return observe.ErrNoLedger
	}
	stored := make(map[string]ledger.AccountState)
	for _, s := range states {
		stored[s.Offer+" "+s.ID] = s
	}
	for _, a := range cy.accounts {
		cy.to[a.payTo] = true
		if a.err = a.load(ctx, stored[a.config.OfferID+" "+a.account]); a.err == nil {
			a.err = a.lowerOrigin(ctx)
		}
		if c := a.stored.Cursor; a.err == nil && c.Position != "" {
			cy.anchors[c.Anchor] = uint64(a.covered)
		}
	}
	return nil
}

func (a *account) load(ctx context.Context, s ledger.AccountState) (err error) {
	a.stored = s
	positions, errs := each([]string{s.Origin, s.Cursor.Position, s.Cursor.Witnessed}, observe.Position)
	if cmp.Or(errs...) != nil || s.ID == "" {
		return observe.ErrNoLedger
	}
	a.origin, a.covered, a.witnessed = positions[0], max(positions[0], positions[1]), max(positions[0], positions[2])
	if s.Since > 0 {
		a.watchedSince = s.Since - int64(max(0, a.config.ClockOffset()).Seconds()) // as observe.Begin
	}
	for limit := recordAtOnce; s.Open; limit *= 2 {
		if a.rows, err = a.config.Ledger.Unfinal(ctx, s.Offer, s.ID, limit); err != nil {
			return observe.ErrNoLedger
		}
		s.Open = len(a.rows) == limit
	}
	return nil
}

// isRead reports whether the account's logs are read.
func (a *account) isRead() bool { return a.err == nil && a.origin >= 0 && !a.config.FollowOnly }

// from returns the block after which the account has to be read: by the witness too, if there is one.
func (cy *cycle) from(a *account) int64 {
	if len(cy.readings) == 2 {
		return min(a.covered, a.witnessed)
	}
	return a.covered
}

// nearBlock returns the block after which accounts are read together, up to the head.
func (cy *cycle) nearBlock() int64 {
	return max(0, min(int64(cy.lowest(Finalized).Number), int64(cy.lowest(Latest).Number)-spanFirst))
}

// readNear reads up to the head for the accounts that are near it, and follows the receipts of all accounts.
func (cy *cycle) readNear(ctx context.Context) error {
	var near []*account
	low, known := int64(math.MaxInt64), make(map[common.Hash]bool)
	for _, a := range cy.accounts {
		if a.isRead() && a.covered >= cy.nearBlock() {
			from := cy.from(a)
			if from < cy.nearBlock() { // readBehind reads the rest for the witness
				from = a.covered
			}
			near, low = append(near, a), min(low, from+1)
		}
		for _, row := range a.rows {
			known[common.HexToHash(row.Transaction)] = true
		}
	}
	j, err := cy.read(ctx, near, uint64(low), math.MaxUint64, known)
	if err != nil {
		return err
	}
	if len(near) > 0 {
		cy.through, cy.missing = j.through, j.sure < j.through
	}
	for _, a := range near {
		a.startWatermark(ctx, cy.readings[0], a.covered)
	}
	if err := cy.commit(ctx, cy.accounts, near, j, low); err != nil {
		return err
	}
	head := cy.lowest(Latest)
	for _, a := range near {
		if !cy.waiting && !a.undecided && j.sure == uint64(head.Number) {
			a.moveWatermark(head)
		}
	}
	return nil
}

// readBehind reads ranges of final blocks for the accounts that are behind, and for those of which the witness has not
// read everything. more means that it made progress.
func (cy *cycle) readBehind(ctx context.Context) (more bool) {
	defer func(all []*reading) { cy.readings = all }(cy.readings)
	for began := time.Now(); time.Since(began) < behindFor; {
		group, from := cy.behind()
		if group == nil {
			return more
		}
		final := uint64(cy.lowest(Finalized).Number)
		j, err := cy.read(ctx, group, uint64(from+1), min(uint64(from+spanMost), final), make(map[common.Hash]bool))
		if err == nil {
			err = cy.commit(ctx, group, group, j, from+1)
		}
		if err != nil {
			cy.addProblem(err)
			return false
		}
		if again, next := cy.behind(); next == from && len(again) == len(group) {
			return false
		}
		more = true
	}
	return more
}

// behind returns accounts less than a range apart that are to be read after a block, those furthest ahead first.
func (cy *cycle) behind() (group []*account, from int64) {
	all := slices.DeleteFunc(slices.Clone(cy.accounts), func(a *account) bool { return !a.isRead() || cy.from(a) >= cy.nearBlock() })
	slices.SortFunc(all, func(a, b *account) int { return cmp.Compare(cy.from(b), cy.from(a)) })
	for _, a := range all {
		if len(group) > 0 && cy.from(group[0])-cy.from(a) > spanMost {
			break
		}
		group, from = append(group, a), cy.from(a)
	}
	return group, from
}

// lowerOrigin moves the origin back to FromBlock, once a process. Everything is read again from there.
func (a *account) lowerOrigin(ctx context.Context) error {
	c, origin := a.config, int64(a.config.FromBlock)-1
	if c.FromBlock == 0 || c.FollowOnly || a.lowered || a.origin < 0 {
		return nil
	}
	if a.origin < origin {
		c.Logger.Warn("later from_block is ignored", "from_block", c.FromBlock, "first_block", a.origin+1,
			"hint", "recorded payments stay; remove from_block")
	} else if a.origin > origin {
		if _, err := observe.LowerOrigin(ctx, c.Ledger, c.OfferID, a.account, origin); err != nil {
			return err
		}
		c.Logger.Info("USDC payments are read again", "first_block", c.FromBlock, "before", a.origin+1)
		a.stored.Cursor, a.origin, a.covered, a.witnessed = ledger.Cursor{}, origin, origin, origin
	}
	a.Observer.lowered = true
	return nil
}

// findOrigin finds the last block whose payments do not count, of a new account: the one before FromBlock, else the one
// before the first start. Until a cursor is stored, a reorganization or an offset of the clock can still lower it.
func (cy *cycle) findOrigin(ctx context.Context, a *account) (err error) {
	first := int64(a.config.FromBlock) - 1
	switch {
	case a.err != nil, a.config.FollowOnly, a.stored.Cursor.Position != "", first >= 0 && a.origin >= 0:
		return nil
	case first < 0:
		if first, err = cy.lastUntil(ctx, a); err != nil {
			return err
		}
	}
	if a.origin < 0 {
		first, err = observe.Origin(ctx, a.config.Ledger, a.config.OfferID, a.account, first)
	} else if first < a.origin {
		_, err = observe.LowerOrigin(ctx, a.config.Ledger, a.config.OfferID, a.account, first)
	}
	if err == nil {
		a.origin, a.covered, a.witnessed = first, first, first
	}
	return err
}

// lastUntil returns the last block that was made until the first start of an account, up to the stored origin. If the
// start is unknown, it is the chain's head.
func (cy *cycle) lastUntil(ctx context.Context, a *account) (int64, error) {
	head, reader := cy.lowest(Latest), cy.readings[0]
	low, high := int64(0), int64(head.Number)
	if a.origin >= 0 {
		high = a.origin
	}
	top := high
	now := cy.config.Now().Add(-a.config.ClockOffset()).Unix()
	if a.stored.Since == 0 {
		low = high
	} else if a.origin < 0 && int64(head.Time) <= a.watchedSince && now-int64(head.Time) > staleAfter {
		// The chain seems stuck: unread blocks can be from before that moment.
		return 0, &observe.Error{Code: observe.ErrLagging, Host: reader.host}
	}
	for middle := high; low < high; middle = high - (high-low)/2 {
		b, err := reader.blockOnce(ctx, uint64(middle))
		switch {
		case err != nil:
			return 0, err
		case b == nil:
			return 0, reader.bad()
		case int64(b.Time) > a.watchedSince:
			high = middle - 1
		default:
			low = middle
		}
	}
	if low == a.origin {
		return low, nil
	}
	// The witness has to show the same.
	_, err := cy.sameBlock(ctx, uint64(low))
	if err == nil && low < top {
		_, err = cy.sameBlock(ctx, uint64(low+1))
	}
	if err == nil && cy.waiting {
		err = cy.problem
	}
	return low, err
}
