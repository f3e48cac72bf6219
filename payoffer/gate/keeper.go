package gate

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const (
	// stateLifetime is how long a state that was read from the ledger is valid, so that a refund closes a gate
	// within this time.
	stateLifetime = 10 * time.Second
	// staleLifetime is how long a gate stays open for known payments while the ledger cannot be
	// read.
	staleLifetime = 10 * time.Minute
	// readTimeout bounds one read of the ledger.
	readTimeout = 5 * time.Second
	// maxKnown bounds the payments that a keeper remembers.
	maxKnown = 20_000
)

var (
	// ErrClosed: the proof is not valid, or its payment does not open the gate.
	ErrClosed = errors.New("this does not open the gate")
	// ErrUnreadable: the ledger cannot say now.
	ErrUnreadable = errors.New("the ledger cannot be read")
)

// Ledger is the part of ledger.Ledger that gates use.
type Ledger interface {
	Payment(ctx context.Context, offerID, account, name string) (ledger.Payment, bool, error)
	Returns(ctx context.Context, offerID, account, externalID string) ([]ledger.Return, error)
	Pass(ctx context.Context, offerID, id string) (ledger.Pass, bool, error)
	Enter(ctx context.Context, offerID, payment, browser string) error
	Browsers(ctx context.Context, offerID, payment string) ([]string, error)
	EndBrowsers(ctx context.Context, offerID, payment string) error
	Prices(ctx context.Context, offerID string, since, until int64) ([]int64, error)
}

// Keeper decides for the gates of one offer. It is safe for concurrent use.
type Keeper struct {
	Offer  *offer.Offer
	Ledger Ledger
	// Key is the key that all instances share, nil until it is loaded.
	Key func() []byte
	Now func() time.Time
	// Memory may be that of other keepers of this offer and key.
	*Memory
}

// Memory is what keepers of one offer have read. The zero value is empty.
type Memory struct {
	mu    sync.Mutex
	known map[Holder]state
	// cookies are those whose MAC was checked.
	cookies map[string]cookieContent
	reads   singleflight.Group
	// changes counts what this process changed, so that an older read is not remembered.
	changes uint64
}

// Grant is what a gate tells the handlers behind it about a payment.
type Grant struct {
	Payment string // identifies the payment, or "pass:<id>"
	Rail    string // of the payment, or "pass"
	Payer   string // an address of a wallet, or empty
	// since is when the money moved, and until the end of a pass; 0 if it has none.
	since, until int64
}

// Expires is when the grant ends at a gate.
func (g Grant) Expires(access time.Duration) time.Time {
	if g.until != 0 {
		return time.Unix(g.until, 0)
	}
	return time.Unix(g.since, 0).Add(access)
}

// ExpiresAt is Expires as text (RFC 3339, UTC), empty without a payment.
func (g Grant) ExpiresAt(access time.Duration) string {
	if g.Payment == "" {
		return ""
	}
	return g.Expires(access).UTC().Format(time.RFC3339)
}

// state is what the ledger says of a holder.
type state struct {
	Grant
	opens    bool
	reason   Reason   // why it opens nothing, although its money is here
	browsers []string // those that entered
	secret   string   // ledger.Intent.Secret
	readAt   time.Time
}

// Enter exchanges a code for the value of a cookie. Errors: ErrClosed, ErrUnreadable.
func (k *Keeper) Enter(ctx context.Context, code string) (cookie string, g Grant, err error) {
	h, browser, err := k.openCode(code)
	if err != nil {
		return "", g, err
	}
	s, err := k.readShared(ctx, h)
	if err != nil {
		return "", g, err
	}
	if !s.opens || s.reason != "" {
		return "", g, ErrClosed
	}
	cookie, err = k.admit(ctx, h, browser, s)
	return cookie, s.Grant, err
}

// admit adds a browser to those of a holder and returns the value of its cookie.
func (k *Keeper) admit(ctx context.Context, h Holder, browser string, s state) (cookie string, err error) {
	switch err := k.Ledger.Enter(ctx, k.Offer.ID, h.key(), browser); {
	case errors.Is(err, ledger.ErrEntered):
		return "", ErrClosed
	case err != nil:
		return "", ErrUnreadable
	}
	k.forget(h)
	return k.seal(useCookie, h.Account, h.Name, strconv.FormatInt(s.since, 10), browser), nil
}

// Admit makes the cookie of an agent that has just paid.
func (k *Keeper) Admit(ctx context.Context, h Holder) (cookie string, err error) {
	s, err := k.stateOf(ctx, h, func(s state) bool { return s.opens })
	if err != nil {
		return "", err
	}
	return k.admit(ctx, h, rand.Text(), s)
}

// ByCookie returns the grant of the browser with this cookie. Errors: ErrClosed, ErrUnreadable.
func (k *Keeper) ByCookie(ctx context.Context, cookie string, access time.Duration) (Grant, error) {
	e, err := k.openCookie(cookie)
	if err != nil {
		return Grant{}, err
	}
	return k.grant(ctx, e.Holder, access, func(s state) bool { return slices.Contains(s.browsers, e.browser) })
}

// cookieContent is the content of a cookie.
type cookieContent struct {
	Holder
	browser string
}

func (k *Keeper) openCookie(cookie string) (cookieContent, error) {
	k.mu.Lock()
	e, checked := k.cookies[cookie]
	k.mu.Unlock()
	if checked && k.Key() != nil {
		return e, nil
	}
	found, err := k.open(useCookie, cookie, 4)
	if err != nil {
		return e, err
	}
	e = cookieContent{Holder{found[0], found[1]}, found[3]}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cookies == nil || len(k.cookies) >= maxKnown {
		k.cookies = make(map[string]cookieContent)
	}
	k.cookies[strings.Clone(cookie)] = e
	return e, nil
}

// ByPayment is the grant of a charged payment whose header was sent again. The request
// must contain the secret of the charged one, because all else is public on the chain.
// Errors: ErrClosed, ErrUnreadable.
func (k *Keeper) ByPayment(ctx context.Context, id x402.Identity, access time.Duration) (Grant, error) {
	return k.grant(ctx, Holder{id.Account, ledger.AuthorizationName(id.Payer, id.Nonce)}, access, func(s state) bool {
		return id.SecretHash != "" && subtle.ConstantTimeCompare([]byte(s.secret), []byte(id.SecretHash)) == 1
	})
}

// ByCharge returns the grant of a payment that this server has just answered as charged. Errors:
// ErrClosed, ErrUnreadable.
func (k *Keeper) ByCharge(ctx context.Context, h Holder, access time.Duration) (Grant, error) {
	k.forget(h)
	return k.grant(ctx, h, access, func(state) bool { return true })
}

// OpenUntil returns until when a payment opens a gate for a new browser. Errors: ErrClosed,
// ErrUnreadable.
func (k *Keeper) OpenUntil(ctx context.Context, h Holder) (until time.Time, err error) {
	if len(k.Offer.Gates) == 0 {
		return until, ErrClosed
	}
	g, err := k.grant(ctx, h, k.longestAccess(), func(s state) bool { return s.reason == "" })
	return g.Expires(k.longestAccess()), err
}

// grant is the grant of a holder whose state proves the request.
func (k *Keeper) grant(ctx context.Context, h Holder, access time.Duration, proves func(state) bool) (Grant, error) {
	good := func(s state) bool { return s.opens && proves(s) }
	s, err := k.stateOf(ctx, h, good)
	if err == nil && (!good(s) || !k.Now().Before(s.Expires(access))) {
		err = ErrClosed
	}
	if err != nil {
		return Grant{}, err
	}
	return s.Grant, nil
}

// longestAccess is the longest time for which a payment opens one of the gates.
func (k *Keeper) longestAccess() (access time.Duration) {
	for _, g := range k.Offer.Gates {
		access = max(access, g.Access)
	}
	return access
}

// Lifetime is how long the cookie of a grant is kept: until the last gate closes.
func (k *Keeper) Lifetime(g Grant) time.Duration { return g.Expires(k.longestAccess()).Sub(k.Now()) }

// End signs out all browsers of a holder. Other instances notice it within ten seconds.
func (k *Keeper) End(ctx context.Context, h Holder) error {
	defer k.forget(h)
	return k.Ledger.EndBrowsers(ctx, k.Offer.ID, h.key())
}

func (k *Keeper) forget(h Holder) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.changes++
	delete(k.known, h)
}

// stateOf returns the known state of a holder if it is good and younger than stateLifetime.
// Otherwise it reads the ledger, because another instance may have changed the state. If the
// ledger cannot be read, a good state stays valid for staleLifetime. Error: ErrUnreadable.
func (k *Keeper) stateOf(ctx context.Context, h Holder, good func(state) bool) (state, error) {
	k.mu.Lock()
	s, known := k.known[h]
	k.mu.Unlock()
	age := k.Now().Sub(s.readAt)
	known = known && age >= 0 && good(s)
	if known && age < stateLifetime {
		return s, nil
	}
	read, err := k.readShared(ctx, h)
	if err != nil && known && age < staleLifetime {
		return s, nil
	}
	return read, err
}

// readShared reads the ledger. Requests for the same holder share one read.
func (k *Keeper) readShared(ctx context.Context, h Holder) (state, error) {
	k.mu.Lock()
	changes := k.changes
	k.mu.Unlock()
	result := k.reads.DoChan(strconv.FormatUint(changes, 10)+" "+h.key(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		s, err := k.readLedger(ctx, h)
		if err == nil {
			k.remember(h, s, changes)
		}
		return s, err
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return state{}, ErrUnreadable
		}
		return r.Val.(state), nil
	case <-ctx.Done():
		return state{}, ErrUnreadable
	}
}

func (k *Keeper) remember(h Holder, s state, changes uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.changes != changes {
		return
	}
	if k.known == nil || len(k.known) >= maxKnown {
		k.known = make(map[Holder]state)
	}
	k.known[h] = s
}

func (k *Keeper) readLedger(ctx context.Context, h Holder) (s state, err error) {
	s.readAt = k.Now()
	if id, is := h.passID(); is {
		pass, found, err := k.Ledger.Pass(ctx, k.Offer.ID, id)
		if err != nil {
			return s, err
		}
		s.Grant = Grant{Payment: h.Name, Rail: "pass", since: pass.CreatedAt, until: pass.ExpiresAt}
		s.opens = found && pass.RevokedAt == 0
	} else {
		p, found, err := k.Ledger.Payment(ctx, k.Offer.ID, h.Account, h.Name)
		if err != nil {
			return s, err
		}
		s.Grant = grantOf(p)
		s.opens = found && k.opens(p)
		if s.opens && p.Intent == nil { // an authorization paid the price of its quote
			if _, s.reason, err = k.PriceOf(ctx, p.Receipt); err != nil {
				return s, err
			}
		}
		if p.Intent != nil {
			s.secret = p.Intent.Secret
		}
		if s.opens {
			returns, err := k.Ledger.Returns(ctx, k.Offer.ID, p.Account, p.ExternalID)
			if err != nil {
				return s, err
			}
			s.opens = !slices.ContainsFunc(returns, func(r ledger.Return) bool { return r.Refunds(p.Asset) })
		}
	}
	if s.opens {
		s.browsers, err = k.Ledger.Browsers(ctx, k.Offer.ID, h.key())
	}
	return s, err
}

func grantOf(p ledger.Payment) Grant {
	g := Grant{Payment: p.ExternalID, Rail: p.Rail, since: p.OccurredAt}
	if network, _, found := strings.Cut(p.Account, "/"); found && p.Nonce != "" {
		g.Payment = network + ":" + strings.ToLower(p.Payer) + ":" + p.Nonce
	}
	if _, _, err := offer.ParseUSDCAccount(p.Account); err == nil {
		g.Payer = p.Payer
	}
	return g
}

// opens reports whether a payment opens the gates. A settlement that a facilitator
// confirmed to this server opens at once, others when they are confirmed. Any refund closes;
// ask finds those that are pending.
func (k *Keeper) opens(p ledger.Payment) bool {
	if p.Offer != k.Offer.ID || p.Refunded > 0 || p.Testnet && !k.takesTests(p.Receipt) {
		return false
	}
	settled := p.Intent != nil && p.Intent.State == ledger.IntentSettled
	return p.Status == ledger.StatusConfirmed || settled && (p.Status == ledger.StatusClaimed || p.Status == ledger.StatusSeen)
}

// takesTests reports whether the operator wants test money on the rail of a payment.
func (k *Keeper) takesTests(r ledger.Receipt) bool {
	rail, found := k.Offer.Rail(r.Rail)
	return k.Offer.Demo || found && rail.Test() && k.Offer.AccountOf(rail) == r.Account
}
