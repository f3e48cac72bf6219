package service

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
)

const (
	// startWait is how long a start, and a request that needs the ledger, wait for offers
	// whose ledger or storage is slow.
	startWait = 5 * time.Second
	// startLook is how often it looks whether the ledger waits for others.
	startLook = 200 * time.Millisecond
	// gatherFor is how long offers whose keys are loaded wait for others, to be opened
	// together.
	gatherFor = time.Second / 2
	// openFirst and openMost bound the pause after a failure, which doubles each time.
	openFirst, openMost = time.Second, 15 * time.Second
)

// Start makes the offers of a configuration ready and runs them. Those whose ledger or
// storage cannot be reached, or is slow, come later by themselves: until then their
// payments are refused for now. With whole set it waits for all, and returns what keeps
// one from coming. An error says what somebody has to mend; found later it is logged,
// and keeps the offers that it is about from running.
func (share *Share) Start(ctx context.Context, whole bool, offers ...*Service) error {
	left := slices.DeleteFunc(slices.Clone(offers), (*Service).IsOpen)
	waiting := make(map[any]bool)
	for _, svc := range left {
		for _, member := range svc.members() {
			waiting[member] = true
		}
	}
	share.Run(func(member any) bool { return !waiting[member] })
	o, err := pool.Acquire(share.Use, pool.KeyOf("opening", rand.Text()), func(hosts *pool.Hosts[Host]) (*opening, error) {
		return &opening{
			share: share, all: offers, left: left, whole: whole, since: time.Now().Unix(), verdict: make(chan error, 1), logger: logger(hosts),
		}, nil
	})
	if err != nil {
		return err
	}
	share.Run(func(member any) bool { return member == any(o) })
	if len(left) == 0 {
		return nil
	}
	return o.wait(ctx)
}

// members are what may run once the offer is open; what else it is made of may at once.
func (svc *Service) members() []any {
	members := []any{svc}
	for _, chain := range svc.chains {
		members = append(members, chain)
	}
	for _, shop := range svc.storefronts {
		members = append(members, shop)
	}
	return append(members, svc.bitcoin, svc.card)
}

// opening makes the offers of one configuration ready, however long that takes. What
// they need of the ledger costs a constant number of statements.
type opening struct {
	share     *Share
	all, left []*Service // left are those that were not open when it began
	whole     bool
	since     int64 // when accounts that are new were first watched, in Unix seconds
	// verdict is what Start returns.
	verdict chan error
	logger  *slog.Logger

	mu      sync.Mutex
	decided bool // there is a verdict
	// stop ends Run where the start is refused.
	stop context.CancelFunc
}

// wait returns the verdict, or nil when it has been long in coming.
func (o *opening) wait(ctx context.Context) error {
	look := time.NewTicker(startLook)
	defer look.Stop()
	for began := time.Now(); ; {
		select {
		case err := <-o.verdict:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
		if !o.whole && time.Since(began) > startWait && o.decide(nil) {
			o.logger.Warn("the ledger or the storage is slow: offers come later, and their payments are answered with 503 until then")
		}
	}
}

// decide gives the verdict, if there is none yet, and reports whether it did.
func (o *opening) decide(err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.decided {
		return false
	}
	o.decided = true
	o.verdict <- err
	if err != nil {
		o.stop()
	}
	return true
}

// lags notes why offers are not open yet, which is over by itself, and reports whether
// to try again.
func (o *opening) lags(err error, offers ...*Service) bool {
	for _, svc := range offers {
		svc.lags(err.Error())
	}
	if o.whole {
		return !o.decide(err)
	}
	if o.decide(nil) {
		o.logger.Warn("offers come later, when their ledger and their storage can be used, which is tried again and again; their payments are answered with 503 until then",
			"error", err.Error(), "offers", ids(offers, someOffers))
	}
	return true
}

// refuses keeps offers from running for what somebody has to mend. It reports whether
// to go on with the others, which is so where the start has returned.
func (o *opening) refuses(err error, offers ...*Service) bool {
	for _, svc := range offers {
		svc.lags(err.Error())
	}
	if o.decide(err) {
		return false
	}
	o.logger.Error("offers take no payments until this is mended and the configuration loaded again", "error", err.Error(), "offers", ids(offers, someOffers))
	return true
}

// someOffers bounds how many offers a line of the log names.
const someOffers = 10

// ids names the first offers, at most so many.
func ids(offers []*Service, most int) (names []string) {
	for _, svc := range offers[:min(len(offers), most)] {
		names = append(names, svc.Offer.ID)
	}
	return names
}

// Run implements pool.Runner.
func (o *opening) Run(ctx context.Context) {
	var loading sync.WaitGroup
	defer loading.Wait()
	ctx, o.stop = context.WithCancel(ctx)
	defer o.stop()
	loaded := make(chan *Service)
	loading.Go(func() {
		defer close(loaded)
		o.loadKeys(ctx, loaded)
	})
	if !o.openLedger(ctx) {
		return
	}
	for batch := range gathered(loaded) {
		if !o.openAll(ctx, batch) {
			return
		}
	}
	if ctx.Err() != nil {
		return
	}
	o.warn(ctx)
	o.decide(nil)
}

// openLedger reports whether the ledger is open.
func (o *opening) openLedger(ctx context.Context) bool {
	for failures := 1; ; failures++ {
		err := o.share.Ledger.Open(ctx)
		switch {
		case err == nil:
			return true
		case ctx.Err() != nil:
			return false
		case !ledger.Away(err):
			o.refuses(err, o.left...)
			return false
		case !o.lags(err, o.left...) || !pause(ctx, failures):
			return false
		}
	}
}

// pause waits after so many failures in a row, and reports whether to try again.
func pause(ctx context.Context, failures int) bool {
	select {
	case <-time.After(source.Backoff(failures, openFirst, openMost, mathrand.Float64())):
		return true
	case <-ctx.Done():
		return false
	}
}

// gathered gives offers on together that came within a moment.
func gathered(loaded <-chan *Service) func(yield func([]*Service) bool) {
	return func(yield func([]*Service) bool) {
		for first := range loaded {
			batch, late := []*Service{first}, time.After(gatherFor)
			for more := true; more; {
				var svc *Service
				select {
				case svc, more = <-loaded:
					if more {
						batch = append(batch, svc)
					}
				case <-late:
					more = false
				}
			}
			if !yield(batch) {
				return
			}
		}
	}
}

// openAll opens offers together, and runs them. It reports whether to go on.
func (o *opening) openAll(ctx context.Context, batch []*Service) bool {
	for failures := 1; len(batch) > 0; failures++ {
		refused, err := o.open(ctx, batch)
		switch {
		case err == nil:
			o.run(batch)
			return true
		case ctx.Err() != nil:
			return false
		case len(refused) == 0 && ledger.Away(err):
			if !o.lags(err, batch...) || !pause(ctx, failures) {
				return false
			}
			continue
		case len(refused) == 0:
			refused = batch
		}
		if !o.refuses(err, refused...) {
			return false
		}
		batch = slices.DeleteFunc(batch, func(svc *Service) bool { return slices.Contains(refused, svc) })
	}
	return true
}

// open stores and loads what requests and the work in the background need of the open
// ledger. An error may be about some offers alone.
func (o *opening) open(ctx context.Context, batch []*Service) (refused []*Service, err error) {
	those := func(which func(*Service) bool) (found []*Service) {
		return slices.DeleteFunc(slices.Clone(batch), func(svc *Service) bool { return !which(svc) })
	}
	// The receivers of announcements have their places before anything can be recorded.
	if err := announce.Load(ctx, announcers(batch)...); err != nil {
		return nil, err
	}
	var accounts []ledger.Account
	for _, svc := range batch {
		for _, account := range svc.Accounts() {
			account.Since = o.since // however late a source answers for the first time
			accounts = append(accounts, account)
		}
	}
	err = o.share.Ledger.Register(ctx, accounts...)
	if taken := new(ledger.TakenError); errors.As(err, &taken) {
		return those(func(svc *Service) bool {
			return slices.ContainsFunc(taken.Taken, func(a ledger.Account) bool { return a.Offer == svc.Offer.ID })
		}), err
	}
	if err != nil {
		return nil, err
	}
	remembered, err := o.share.Ledger.AccountsOf(ctx, ids(batch, len(batch))...)
	if err != nil {
		return nil, err
	}
	for _, svc := range batch {
		svc.payments.former.remembered = remembered[svc.Offer.ID]
	}
	err = o.share.rememberKeys(ctx, batch...)
	if other := new(foreignError); errors.As(err, &other) {
		return those(other.concerns), err
	}
	if err != nil {
		return nil, err
	}
	return o.loadAddresses(ctx, batch)
}

func announcers(offers []*Service) (all []*announce.Announcer) {
	for _, svc := range offers {
		all = append(all, svc.announcer)
	}
	return all
}

// loadAddresses loads the current addresses of extended keys.
func (o *opening) loadAddresses(ctx context.Context, batch []*Service) (refused []*Service, err error) {
	var accounts []string
	var extended []*Service
	for _, svc := range batch {
		if svc.bitcoin != nil && svc.bitcoin.Address() == "" {
			extended, accounts = append(extended, svc), append(accounts, svc.Offer.Bitcoin().Account())
		}
	}
	if len(extended) == 0 {
		return nil, nil
	}
	cursors, err := o.share.Ledger.Cursors(ctx, accounts...)
	if err != nil {
		return nil, err
	}
	for _, svc := range extended {
		if failed := svc.bitcoin.Load(cursors); failed != nil {
			refused, err = append(refused, svc), failed
		}
	}
	return refused, err
}

// run lets offers that are open take payments, and runs all that they are made of.
func (o *opening) run(batch []*Service) {
	ready := make(map[any]bool)
	for _, svc := range batch {
		svc.open()
		for _, member := range svc.members() {
			ready[member] = true
		}
	}
	o.share.Run(func(member any) bool { return ready[member] })
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.decided { // else the server says so when all of it has started
		for _, svc := range batch {
			svc.TellOpen()
		}
	}
}

// TellOpen logs where to look at the offer.
func (svc *Service) TellOpen() {
	svc.logger.Info("the offer is open", "pay", svc.Offer.URL(offer.PathMethods), "site", svc.Offer.SitePage())
}

// warn logs the offers of the ledger that the configuration does not have. An id that
// changed with base_url would put their money out of sight.
func (o *opening) warn(ctx context.Context) {
	known := make(map[string]bool, len(o.all))
	for _, svc := range o.all {
		known[svc.Offer.ID] = true
	}
	forgotten, err := o.share.Ledger.Offers(ctx)
	if err != nil && ctx.Err() == nil {
		o.logger.Warn("what the ledger holds of before could not be looked at", "error", err.Error())
	}
	forgotten = slices.DeleteFunc(forgotten, func(id string) bool { return known[id] })
	if len(forgotten) > 0 {
		o.logger.Warn("the ledger holds money of offers that this configuration does not have: did base_url change? "+
			"then give the offer its old 'id'; offers of other instances may be meant", "offers", forgotten)
	}
}

var _ pool.Runner = (*opening)(nil)
