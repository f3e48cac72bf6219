package gate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const (
	payTo  = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
	payer  = "0x1111111111111111111111111111111111111111"
	day    = 24 * time.Hour
	access = 30 * day
)

var (
	start = time.Date(2026, 11, 21, 13, 14, 15, 0, time.UTC)
	nonce = "0x" + strings.Repeat("ab", 32)
)

// world is an offer with a gate, its ledger and its clock.
type world struct {
	*Keeper
	t      testing.TB
	ledger *counting
	now    atomic.Int64 // Unix seconds
	usdc   *offer.USDC
	card   ledger.Account
}

// counting is a ledger that counts its reads and can fail, as a whole or by the name of a call.
type counting struct {
	*ledger.Ledger
	reads atomic.Int64
	away  atomic.Bool
	fails atomic.Pointer[string]
	then  atomic.Pointer[func()] // is called once, after the browsers were read
}

var errAway = errors.New("away")

func (c *counting) failure(name string) error {
	if fails := c.fails.Load(); fails != nil && *fails == name {
		return errAway
	}
	return nil
}

func (c *counting) Returns(ctx context.Context, offerID, account, externalID string) ([]ledger.Return, error) {
	if err := c.failure("Returns"); err != nil {
		return nil, err
	}
	return c.Ledger.Returns(ctx, offerID, account, externalID)
}

func (c *counting) Pass(ctx context.Context, offerID, id string) (ledger.Pass, bool, error) {
	if err := c.failure("Pass"); err != nil {
		return ledger.Pass{}, false, err
	}
	return c.Ledger.Pass(ctx, offerID, id)
}

func (c *counting) Enter(ctx context.Context, offerID, payment, browser string) error {
	if err := c.failure("Enter"); err != nil {
		return err
	}
	return c.Ledger.Enter(ctx, offerID, payment, browser)
}

func (c *counting) Browsers(ctx context.Context, offerID, payment string) ([]string, error) {
	if err := c.failure("Browsers"); err != nil {
		return nil, err
	}
	browsers, err := c.Ledger.Browsers(ctx, offerID, payment)
	if then := c.then.Swap(nil); then != nil {
		(*then)()
	}
	return browsers, err
}

func (c *counting) Payment(ctx context.Context, offerID, account, name string) (ledger.Payment, bool, error) {
	c.reads.Add(1)
	if c.away.Load() {
		return ledger.Payment{}, false, errAway
	}
	return c.Ledger.Payment(ctx, offerID, account, name)
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t}
	w.now.Store(start.Unix())
	clock := func() time.Time { return time.Unix(w.now.Load(), 0) }
	l := ledger.NewSQLite(payoffertest.LedgerFile(t), clock)
	require.NoError(t, l.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	w.ledger = &counting{Ledger: l}
	w.Keeper = w.instance("pay.example.org")
	return w
}

// instance is another server with the same ledger and key.
func (w *world) instance(id string) *Keeper {
	terms := offer.Terms{ID: id, BaseURL: "https://" + id, SiteURL: "https://example.org", Name: "Members", Amount: 42_00}
	card := must(offer.NewCard("https://buy.example/1", nil, terms.Amount))(w.t)
	network := must(offer.LookupNetwork("base"))(w.t)
	w.usdc = must(offer.NewUSDC("usdc", network, payTo, terms.Amount))(w.t)
	o := must(offer.New(terms, card, w.usdc))(w.t)
	o.Gates = []offer.Gate{{Start: "https://example.org/members/", Access: access}, {Start: "https://files.example.org/", Access: day}}
	w.card = ledger.Account{Offer: id, ID: o.AccountOf(card), Rail: "card"}
	usdc := ledger.Account{Offer: id, ID: o.AccountOf(w.usdc), Rail: "usdc"}
	if id == "pay.example.org" {
		require.NoError(w.t, w.ledger.Register(w.t.Context(), w.card, usdc))
	}
	return &Keeper{
		Offer: o, Ledger: w.ledger, Key: func() []byte { return []byte(strings.Repeat("k", 32)) },
		Now: func() time.Time { return time.Unix(w.now.Load(), 0) }, Memory: new(Memory),
	}
}

// must fails the test if a call fails, and returns its value: must(call())(t).
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

// errorOf is the error of a call.
func errorOf[T any](_ T, err error) error { return err }

func (w *world) pass(d time.Duration) { w.now.Add(int64(d / time.Second)) }

// pays records a confirmed card payment, with changes.
func (w *world) pays(id string, change func(*ledger.Observation)) Holder {
	w.t.Helper()
	cents := int64(42_00)
	s := ledger.Observation{
		Offer: w.Offer.ID, Account: w.card.ID, Rail: "card", ExternalID: id, Via: "link", Asset: "USD", Amount: cents, USDCents: &cents,
		ValueBasis: ledger.BasisFace, State: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelSigned, OccurredAt: w.now.Load(), Cause: "webhook",
	}
	if change != nil {
		change(&s)
	}
	must(w.ledger.Record(w.t.Context(), nil, s))(w.t)
	return Holder{w.card.ID, "r/" + id}
}

// enters enters a new browser and returns its cookie.
func (w *world) enters(k *Keeper, h Holder) string {
	w.t.Helper()
	cookie, _, err := k.Enter(w.t.Context(), k.Code(h))
	require.NoError(w.t, err)
	return cookie
}

func (w *world) requireOpen(k *Keeper, cookie string) Grant {
	w.t.Helper()
	return must(k.ByCookie(w.t.Context(), cookie, access))(w.t)
}

func (w *world) requireClosed(k *Keeper, cookie string) {
	w.t.Helper()
	require.ErrorIs(w.t, errorOf(k.ByCookie(w.t.Context(), cookie, access)), ErrClosed)
}

// requireRefused requires that a code lets no browser in.
func (w *world) requireRefused(k *Keeper, code, why string) {
	w.t.Helper()
	_, _, err := k.Enter(w.t.Context(), code)
	require.ErrorIs(w.t, err, ErrClosed, why)
}

func TestCookieOpensUntilAccessEnds(t *testing.T) {
	w := newWorld(t)
	cookie := w.enters(w.Keeper, w.pays("pi_1", nil))
	g := w.requireOpen(w.Keeper, cookie)
	require.Equal(t, "pi_1", g.Payment)
	require.Equal(t, "card", g.Rail)
	require.Empty(t, g.Payer)
	require.Equal(t, "2026-12-21T13:14:15Z", g.ExpiresAt(access))
	_, err := w.ByCookie(t.Context(), cookie, day)
	require.NoError(t, err, "another gate has its own access")
	w.pass(day)
	require.ErrorIs(t, errorOf(w.ByCookie(t.Context(), cookie, day)), ErrClosed)
	w.requireOpen(w.Keeper, cookie)
	w.pass(29 * day)
	w.requireClosed(w.Keeper, cookie)
}

func TestCodeValidOnceForOneMinute(t *testing.T) {
	w := newWorld(t)
	h := w.pays("pi_1", nil)
	code := w.Code(h)
	_, _, err := w.Enter(t.Context(), code)
	require.NoError(t, err)
	for range 2 {
		w.requireRefused(w.Keeper, code, "it was used")
	}
	late := w.Code(h)
	w.pass(61 * time.Second)
	w.requireRefused(w.Keeper, late, "it is late")

	other := w.instance("other.example.org")
	w.requireRefused(other, w.Code(h), "another offer")
	cookie := w.enters(w.Keeper, h)
	w.requireClosed(other, cookie)
	for _, text := range []string{w.Code(h), w.Back(w.Offer.Gates[0], "/members/")} {
		w.requireClosed(w.Keeper, text)
	}
	w.requireRefused(w.Keeper, cookie, "a cookie is no code")
}

// A settlement that this server made opens at once; all other money when it is confirmed;
// money that went back, test money and less than the price do not.
func TestPaymentsThatOpenGate(t *testing.T) {
	cents := func(n int64) *int64 { return &n }
	for name, c := range map[string]struct {
		change func(*ledger.Observation)
		opens  bool
	}{
		"confirmed":           {nil, true},
		"seen":                {func(s *ledger.Observation) { s.State = ledger.StatusSeen }, false},
		"dropped":             {func(s *ledger.Observation) { s.State = ledger.StatusDropped }, false},
		"refunded":            {returns(ledger.ReturnRefund, 42_00), false},
		"refunded in part":    {returns(ledger.ReturnRefund, 1), false},
		"refund pending":      {refund("pending", ""), false},
		"refund failed":       {refund("failed", ""), true},
		"refund of euros":     {refund("pending", "EUR"), true},
		"disputed":            {returns(ledger.ReturnReversal, 42_00), false},
		"test money":          {func(s *ledger.Observation) { s.Testnet = true }, false},
		"less than the price": {func(s *ledger.Observation) { s.Amount, s.USDCents = 41_99, cents(41_99) }, false},
		"more than the price": {func(s *ledger.Observation) { s.Amount, s.USDCents = 50_00, cents(50_00) }, true},
		"unknown value":       {func(s *ledger.Observation) { s.Asset, s.Amount, s.USDCents, s.ValueBasis = "EUR", 90_00, nil, "" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			h := w.pays("pi_1", c.change)
			_, _, err := w.Enter(t.Context(), w.Code(h))
			_, opens := w.OpenUntil(t.Context(), h)
			if c.opens {
				require.NoError(t, err)
				require.NoError(t, opens)
			} else {
				require.ErrorIs(t, err, ErrClosed)
				require.ErrorIs(t, opens, ErrClosed)
			}
		})
	}
}

// returns has money of a payment go back.
func returns(kind ledger.ReturnKind, cents int64) func(*ledger.Observation) {
	return func(s *ledger.Observation) {
		s.Returns = []ledger.Return{{ID: "re_1", Kind: kind, Amount: cents, Gone: true, At: s.OccurredAt}}
	}
}

// settles records an x402 payment that a facilitator confirmed.
func (w *world) settles(secret string) x402.Identity {
	w.t.Helper()
	key := ledger.IntentKey{Network: "eip155:8453", Asset: w.usdc.Network.USDC, From: payer, Nonce: nonce}
	value := int64(42_00)
	require.NoError(w.t, w.ledger.InsertIntent(w.t.Context(), ledger.Intent{
		IntentKey: key, Offer: w.Offer.ID, Account: w.usdc.Account(), Amount: 42_000_000, USDCents: &value, Secret: secret,
		Fingerprint: "f", Version: 2, Payload: []byte("{}"), Requirement: []byte("{}"), ValidBefore: w.now.Load() + 300,
		Progress: ledger.Progress{Facilitator: "f.example", Owner: "test", LeaseUntil: w.now.Load() + 60},
	}))
	id := x402.Identity{Account: w.usdc.Account(), Payer: payer, Nonce: nonce, SecretHash: secret}
	require.ErrorIs(w.t, errorOf(w.ByPayment(w.t.Context(), id, access)), ErrClosed, "an unknown outcome opens nothing")
	claim := ledger.IntentChange{Event: accounting.EventClaimed, Transaction: "0x" + strings.Repeat("1", 64), Answer: []byte("{}")}
	_, err := w.ledger.Apply(w.t.Context(), key, claim)
	require.NoError(w.t, err)
	return id
}

func TestPaymentHeaderPassNeedsSecret(t *testing.T) {
	w := newWorld(t)
	id := w.settles(strings.Repeat("5", 64))
	g := must(w.ByPayment(t.Context(), id, access))(t)
	require.Equal(t, Grant{Payment: "eip155:8453:" + payer + ":" + nonce, Rail: "usdc", Payer: payer, since: start.Unix()}, g)
	for _, forged := range []string{"", strings.Repeat("6", 64), strings.Repeat("5", 63)} {
		id.SecretHash = forged
		require.ErrorIs(t, errorOf(w.ByPayment(t.Context(), id, access)), ErrClosed, "%q", forged)
	}
	without := newWorld(t)
	id = without.settles("")
	require.ErrorIs(t, errorOf(without.ByPayment(t.Context(), id, access)), ErrClosed, "x402 version 1 has no secret")
	h := Holder{id.Account, ledger.AuthorizationName(payer, nonce)}
	_, err := without.ByCharge(t.Context(), h, access)
	require.NoError(t, err, "but its first response has the content")
	cookie := must(without.Admit(t.Context(), h))(t)
	without.requireOpen(without.Keeper, cookie)
}

// The five newest browsers pass, on every instance, until the payer ends them.
func TestBrowserLimit(t *testing.T) {
	w := newWorld(t)
	h, second := w.pays("pi_1", nil), w.instance("pay.example.org")
	var cookies []string
	for n := range ledger.MaxBrowsers + 1 {
		at := []*Keeper{w.Keeper, second}[n%2]
		cookies = append(cookies, w.enters(at, h))
		w.requireOpen(w.Keeper, cookies[n])
		w.requireOpen(second, cookies[n])
	}
	w.pass(stateLifetime)
	w.requireClosed(w.Keeper, cookies[0])
	w.requireClosed(second, cookies[0])
	for _, cookie := range cookies[1:] {
		w.requireOpen(w.Keeper, cookie)
	}
	require.NoError(t, w.End(t.Context(), h))
	for _, cookie := range cookies {
		w.requireClosed(w.Keeper, cookie)
	}
	w.pass(stateLifetime)
	w.requireClosed(second, cookies[5])
	w.requireOpen(second, w.enters(second, h))
}

// While the ledger is away, who passed before still passes for ten minutes; a new browser
// is told to come back.
func TestKnownBrowsersPassDuringLedgerOutage(t *testing.T) {
	w := newWorld(t)
	known, unknown := w.enters(w.Keeper, w.pays("pi_1", nil)), w.enters(w.Keeper, w.pays("pi_2", nil))
	w.requireOpen(w.Keeper, known)
	w.ledger.away.Store(true)
	require.ErrorIs(t, errorOf(w.ByCookie(t.Context(), unknown, access)), ErrUnreadable)
	w.pass(staleLifetime - time.Second)
	w.requireOpen(w.Keeper, known)
	w.pass(time.Second)
	require.ErrorIs(t, errorOf(w.ByCookie(t.Context(), known, access)), ErrUnreadable)
	w.ledger.away.Store(false)
	w.requireOpen(w.Keeper, unknown)
}

// The browsers were read before the sign-out, and are known after it.
func TestSignOutDuringReadCloses(t *testing.T) {
	w := newWorld(t)
	h := w.pays("pi_1", nil)
	cookie := w.enters(w.Keeper, h)
	w.ledger.then.Store(new(func() { require.NoError(t, w.End(t.Context(), h)) }))
	_, _ = w.ByCookie(t.Context(), cookie, access)
	require.Nil(t, w.ledger.then.Load(), "the browsers were not read")
	w.requireClosed(w.Keeper, cookie)
}

// One call of several fails: the browser is asked to come back, and never to pay.
func TestLedgerErrorsReturnErrUnreadable(t *testing.T) {
	for _, call := range []string{"Pass", "Enter", "Browsers"} {
		w := newWorld(t)
		require.NoError(t, w.ledger.InsertPass(t.Context(), ledger.Pass{ID: "abc", Offer: w.Offer.ID, ExpiresAt: w.now.Load() + 3600}))
		code := w.PassCode("abc")
		cookie, _, err := w.Keeper.Enter(t.Context(), code)
		require.NoError(t, err)
		w.ledger.fails.Store(&call)
		value, _, err := w.Keeper.Enter(t.Context(), code)
		require.ErrorIs(t, err, ErrUnreadable, call)
		require.Empty(t, value, "no cookie that is not stored")
		if call != "Enter" {
			require.ErrorIs(t, errorOf(w.ByCookie(t.Context(), cookie, access)), ErrUnreadable, call)
		}
		w.ledger.fails.Store(nil)
		w.requireOpen(w.Keeper, cookie)
	}
}

func TestKeeperWithoutKeyOpensNothing(t *testing.T) {
	w := newWorld(t)
	cookie := w.enters(w.Keeper, w.pays("pi_1", nil))
	w.Key = func() []byte { return nil }
	require.ErrorIs(t, errorOf(w.ByCookie(t.Context(), cookie, access)), ErrUnreadable)
	w.requireClosed(w.Keeper, "")
	require.False(t, w.IsBack(seal(nil, useBack, w.Offer.ID, shortHash(w.Offer.Gates[0].Start), "/")))
}

func TestPassOpensUntilRevokedOrExpired(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.ledger.InsertPass(t.Context(), ledger.Pass{ID: "abc", Offer: w.Offer.ID, Note: "press", ExpiresAt: w.now.Load() + 3600}))
	code := w.PassCode("abc")
	w.pass(2 * codeLifetime)
	pressed, g, err := w.Enter(t.Context(), code)
	require.NoError(t, err)
	require.Equal(t, Grant{Payment: "pass:abc", Rail: "pass", since: start.Unix(), until: start.Unix() + 3600}, g)
	w.requireOpen(w.Keeper, pressed)
	require.NoError(t, w.ledger.RevokePass(t.Context(), w.Offer.ID, "abc"))
	w.pass(stateLifetime)
	w.requireClosed(w.Keeper, pressed)
	w.requireRefused(w.Keeper, code, "it was revoked")
	w.requireRefused(w.Keeper, w.PassCode("other"), "there is none")

	require.NoError(t, w.ledger.InsertPass(t.Context(), ledger.Pass{ID: "def", Offer: w.Offer.ID, ExpiresAt: w.now.Load() + 60}))
	cookie, _, err := w.Enter(t.Context(), w.PassCode("def"))
	require.NoError(t, err)
	w.pass(time.Minute)
	w.requireClosed(w.Keeper, cookie)
}

// Nobody but the gate chooses where a payer goes, and never the host.
func TestCodeLinkLeadsToGate(t *testing.T) {
	w := newWorld(t)
	for back, want := range map[string]string{
		"":                      "https://example.org/members/?pay_offer=CODE",
		"https://evil.example/": "https://example.org/members/?pay_offer=CODE",
		w.Back(w.Offer.Gates[0], "/members/a?b=c"):                   "https://example.org/members/a?b=c&pay_offer=CODE",
		w.Back(w.Offer.Gates[1], "/x.zip"):                           "https://files.example.org/x.zip?pay_offer=CODE",
		w.Back(offer.Gate{Start: "https://gone.example.org/"}, "/x"): "https://example.org/members/?pay_offer=CODE",
		w.instance("other.example.org").Back(w.Offer.Gates[1], "/x"): "https://example.org/members/?pay_offer=CODE",
	} {
		require.Equal(t, want, w.Link("CODE", back))
	}
}

func TestCookieAttributes(t *testing.T) {
	w := newWorld(t)
	require.Regexp(t, `^__Host-pay_offer_[0-9a-f]{8}$`, w.CookieName("https://example.org"))
	require.Regexp(t, `^pay_offer_[0-9a-f]{8}$`, w.CookieName("http://localhost:8403"))
	require.NotEqual(t, w.CookieName("https://example.org"), w.instance("other.example.org").CookieName("https://example.org"))
	require.Equal(t, "n=v; Path=/; Max-Age=60; HttpOnly; Secure; SameSite=Lax", Cookie("n", "v", "https://example.org", time.Minute).String())
	require.Equal(t, "n=v; Path=/; Max-Age=60; HttpOnly; SameSite=Lax", Cookie("n", "v", "http://localhost", time.Minute).String())
}

func TestPaidContentIsPrivate(t *testing.T) {
	const vary = "Cookie, Authorization, Payment-Signature"
	for n, c := range []struct {
		cache, vary         []string
		wantCache, wantVary string
	}{
		{nil, nil, "private", vary},
		{[]string{"public, max-age=300"}, []string{"Accept-Encoding"}, "private, max-age=300", vary + ", Accept-Encoding"},
		{[]string{"s-maxage=60,Public , immutable"}, []string{"cookie,Accept"}, "private, immutable", vary + ", Accept"},
		{[]string{"no-store"}, []string{"*"}, "private, no-store", vary + ", *"},
		{[]string{`private="x", max-age=1`}, nil, "private, max-age=1", vary},
		{[]string{"max-age=1", "public"}, []string{"A", "B, a"}, "private, max-age=1", vary + ", A, B"},
	} {
		h := http.Header{"Cache-Control": c.cache, "Vary": c.vary, "Cdn-Cache-Control": {"public"}, "Surrogate-Control": {"max-age=9"}}
		Private(h)
		require.Equal(t, http.Header{"Cache-Control": {c.wantCache}, "Vary": {c.wantVary}}, h, fmt.Sprint(n))
	}
}
