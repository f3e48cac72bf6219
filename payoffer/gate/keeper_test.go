package gate

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
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

// counting is a ledger that counts its reads and can fail.
type counting struct {
	*ledger.Ledger
	reads atomic.Int64
	away  atomic.Bool
}

func (c *counting) Payment(ctx context.Context, offerID, account, name string) (ledger.Payment, bool, error) {
	c.reads.Add(1)
	if c.away.Load() {
		return ledger.Payment{}, false, errors.New("away")
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
	card, err := offer.NewCard("https://buy.example/1", nil, terms.Amount)
	require.NoError(w.t, err)
	network, err := offer.LookupNetwork("base")
	require.NoError(w.t, err)
	w.usdc, err = offer.NewUSDC("usdc", network, payTo, terms.Amount)
	require.NoError(w.t, err)
	o, err := offer.New(terms, card, w.usdc)
	require.NoError(w.t, err)
	o.Gates = []offer.Gate{{Start: "https://example.org/members/", Access: access}, {Start: "https://files.example.org/", Access: day}}
	w.card = ledger.Account{Offer: id, ID: o.AccountOf(card), Rail: "card"}
	usdc := ledger.Account{Offer: id, ID: o.AccountOf(w.usdc), Rail: "usdc"}
	if id == "pay.example.org" {
		require.NoError(w.t, w.ledger.Register(w.t.Context(), w.card, usdc))
	}
	return &Keeper{
		Offer: o, Ledger: w.ledger, Key: func() []byte { return []byte(strings.Repeat("k", 32)) },
		Now: func() time.Time { return time.Unix(w.now.Load(), 0) },
	}
}

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
	_, err := w.ledger.Record(w.t.Context(), nil, s)
	require.NoError(w.t, err)
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
	g, err := k.ByCookie(w.t.Context(), cookie, access)
	require.NoError(w.t, err)
	return g
}

func (w *world) requireClosed(k *Keeper, cookie string) {
	w.t.Helper()
	_, err := k.ByCookie(w.t.Context(), cookie, access)
	require.ErrorIs(w.t, err, ErrClosed)
}

func TestABrowserThatEnteredPassesUntilItsAccessEnds(t *testing.T) {
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
	_, err = w.ByCookie(t.Context(), cookie, day)
	require.ErrorIs(t, err, ErrClosed)
	w.requireOpen(w.Keeper, cookie)
	w.pass(29 * day)
	w.requireClosed(w.Keeper, cookie)
}

func TestACodeIsValidOnceForAMinuteAndForItsOffer(t *testing.T) {
	w := newWorld(t)
	h := w.pays("pi_1", nil)
	code := w.Code(h)
	_, _, err := w.Enter(t.Context(), code)
	require.NoError(t, err)
	for range 2 {
		_, _, err = w.Enter(t.Context(), code)
		require.ErrorIs(t, err, ErrClosed, "it was used")
	}
	late := w.Code(h)
	w.pass(61 * time.Second)
	_, _, err = w.Enter(t.Context(), late)
	require.ErrorIs(t, err, ErrClosed)

	other := w.instance("other.example.org")
	_, _, err = other.Enter(t.Context(), w.Code(h))
	require.ErrorIs(t, err, ErrClosed, "another offer")
	cookie := w.enters(w.Keeper, h)
	w.requireClosed(other, cookie)
	for _, text := range []string{w.Code(h), w.Back(w.Offer.Gates[0], "/members/")} {
		w.requireClosed(w.Keeper, text)
	}
	_, _, err = w.Enter(t.Context(), cookie)
	require.ErrorIs(t, err, ErrClosed, "a cookie is no code")
}

// A settlement that this server made opens at once; all other money when it is confirmed;
// money that went back, test money and less than the price do not.
func TestWhatOpens(t *testing.T) {
	cents := func(n int64) *int64 { return &n }
	for name, c := range map[string]struct {
		change func(*ledger.Observation)
		opens  bool
	}{
		"confirmed": {nil, true},
		"seen":      {func(s *ledger.Observation) { s.State = ledger.StatusSeen }, false},
		"dropped":   {func(s *ledger.Observation) { s.State = ledger.StatusDropped }, false},
		"refunded": {func(s *ledger.Observation) {
			s.Returns = []ledger.Return{{ID: "re_1", Kind: ledger.ReturnRefund, Amount: 42_00, Gone: true, At: s.OccurredAt}}
		}, false},
		"refunded in part": {func(s *ledger.Observation) {
			s.Returns = []ledger.Return{{ID: "re_1", Kind: ledger.ReturnRefund, Amount: 1, Gone: true, At: s.OccurredAt}}
		}, false},
		"disputed": {func(s *ledger.Observation) {
			s.Returns = []ledger.Return{{ID: "dp_1", Kind: ledger.ReturnReversal, Amount: 42_00, Gone: true, At: s.OccurredAt}}
		}, false},
		"test money":          {func(s *ledger.Observation) { s.Testnet = true }, false},
		"less than the price": {func(s *ledger.Observation) { s.Amount, s.USDCents = 41_99, cents(41_99) }, false},
		"more than the price": {func(s *ledger.Observation) { s.Amount, s.USDCents = 50_00, cents(50_00) }, true},
		"unknown value":       {func(s *ledger.Observation) { s.Asset, s.Amount, s.USDCents, s.ValueBasis = "EUR", 90_00, nil, "" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			h := w.pays("pi_1", c.change)
			_, _, err := w.Enter(t.Context(), w.Code(h))
			_, opens := w.Opens(t.Context(), h)
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

// settles records an x402 payment that a facilitator confirmed.
func (w *world) settles(secret string) x402.Identity {
	w.t.Helper()
	key := ledger.IntentKey{Network: "eip155:8453", Asset: w.usdc.Network.USDC, From: payer, Nonce: nonce}
	value := int64(42_00)
	require.NoError(w.t, w.ledger.InsertIntent(w.t.Context(), ledger.Intent{
		IntentKey: key, Offer: w.Offer.ID, Account: w.usdc.Account(), Amount: 42_000_000, USDCents: &value, Secret: secret,
		Fingerprint: "f", Version: 2, Payload: []byte("{}"), Requirement: []byte("{}"), Facilitator: "f.example", Owner: "test",
		ValidBefore: w.now.Load() + 300, LeaseUntil: w.now.Load() + 60, CreatedAt: w.now.Load(),
	}))
	id := x402.Identity{Account: w.usdc.Account(), Payer: payer, Nonce: nonce, SecretHash: secret}
	_, err := w.ByPayment(w.t.Context(), id, access)
	require.ErrorIs(w.t, err, ErrClosed, "an unknown outcome opens nothing")
	require.NoError(w.t, w.ledger.SettleIntent(w.t.Context(), key, "0x"+strings.Repeat("1", 64), []byte("{}"), ledger.EvidenceFacilitator))
	return id
}

func TestAChargedHeaderIsAPassForWhoHasItsSecret(t *testing.T) {
	w := newWorld(t)
	id := w.settles(strings.Repeat("5", 64))
	g, err := w.ByPayment(t.Context(), id, access)
	require.NoError(t, err)
	require.Equal(t, Grant{Payment: "eip155:8453:" + payer + ":" + nonce, Rail: "usdc", Payer: payer, since: start.Unix()}, g)
	for _, forged := range []string{"", strings.Repeat("6", 64), strings.Repeat("5", 63)} {
		id.SecretHash = forged
		_, err := w.ByPayment(t.Context(), id, access)
		require.ErrorIs(t, err, ErrClosed, "%q", forged)
	}
	without := newWorld(t)
	id = without.settles("")
	_, err = without.ByPayment(t.Context(), id, access)
	require.ErrorIs(t, err, ErrClosed, "x402 version 1 has no secret")
	h := Holder{id.Account, ledger.AuthorizationName(payer, nonce)}
	_, err = without.Charged(t.Context(), h, access)
	require.NoError(t, err, "but its first response has the content")
	cookie, err := without.Admit(t.Context(), h)
	require.NoError(t, err)
	without.requireOpen(without.Keeper, cookie)
}

// The five newest browsers pass, on every instance, until the payer ends them.
func TestAtMostFiveBrowsersPass(t *testing.T) {
	w := newWorld(t)
	h, second := w.pays("pi_1", nil), w.instance("pay.example.org")
	var cookies []string
	for n := range ledger.MaxBrowsers + 1 {
		at := []*Keeper{w.Keeper, second}[n%2]
		cookies = append(cookies, w.enters(at, h))
		w.requireOpen(w.Keeper, cookies[n])
		w.requireOpen(second, cookies[n])
	}
	w.pass(fresh)
	w.requireClosed(w.Keeper, cookies[0])
	w.requireClosed(second, cookies[0])
	for _, cookie := range cookies[1:] {
		w.requireOpen(w.Keeper, cookie)
	}
	require.NoError(t, w.End(t.Context(), h))
	for _, cookie := range cookies {
		w.requireClosed(w.Keeper, cookie)
	}
	w.pass(fresh)
	w.requireClosed(second, cookies[5])
	w.requireOpen(second, w.enters(second, h))
}

// A refund closes within ten seconds, and until then the ledger is not asked.
func TestARefundClosesWithinTenSecondsWithoutAQueryBefore(t *testing.T) {
	w := newWorld(t)
	h := w.pays("pi_1", nil)
	cookie := w.enters(w.Keeper, h)
	w.requireOpen(w.Keeper, cookie)
	reads := w.ledger.reads.Load()
	w.pays("pi_1", func(s *ledger.Observation) {
		s.Returns = []ledger.Return{{ID: "re_1", Kind: ledger.ReturnRefund, Amount: 42_00, Gone: true, At: s.OccurredAt}}
	})
	for range 9 {
		w.pass(time.Second)
		w.requireOpen(w.Keeper, cookie)
	}
	require.Equal(t, reads, w.ledger.reads.Load())
	w.pass(time.Second)
	w.requireClosed(w.Keeper, cookie)
}

// While the ledger is away, who passed before still passes for ten minutes; a new browser
// is told to come back.
func TestWithoutALedgerKnownBrowsersPassForTenMinutes(t *testing.T) {
	w := newWorld(t)
	known, unknown := w.enters(w.Keeper, w.pays("pi_1", nil)), w.enters(w.Keeper, w.pays("pi_2", nil))
	w.requireOpen(w.Keeper, known)
	w.ledger.away.Store(true)
	_, err := w.ByCookie(t.Context(), unknown, access)
	require.ErrorIs(t, err, ErrUnreadable)
	w.pass(patience - time.Second)
	w.requireOpen(w.Keeper, known)
	w.pass(time.Second)
	_, err = w.ByCookie(t.Context(), known, access)
	require.ErrorIs(t, err, ErrUnreadable)
	w.ledger.away.Store(false)
	w.requireOpen(w.Keeper, unknown)
}

func TestAKeeperWithoutAKeyOpensNothingAndSaysSo(t *testing.T) {
	w := newWorld(t)
	cookie := w.enters(w.Keeper, w.pays("pi_1", nil))
	w.Key = func() []byte { return nil }
	_, err := w.ByCookie(t.Context(), cookie, access)
	require.ErrorIs(t, err, ErrUnreadable)
	w.requireClosed(w.Keeper, "")
	require.False(t, w.IsBack(seal(nil, useBack, w.Offer.ID, short(w.Offer.Gates[0].Start), "/")))
}

func TestAPassOpensUntilItIsRevokedOrOver(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.ledger.InsertPass(t.Context(), ledger.Pass{ID: "abc", Offer: w.Offer.ID, Note: "press", ExpiresAt: w.now.Load() + 3600}))
	code := w.PassCode("abc")
	w.pass(2 * codeLifetime)
	var cookies []string
	for range ledger.MaxBrowsers + 1 {
		cookie, g, err := w.Enter(t.Context(), code)
		require.NoError(t, err)
		require.Equal(t, Grant{Payment: "pass:abc", Rail: "pass", since: start.Unix(), until: start.Unix() + 3600}, g)
		cookies = append(cookies, cookie)
	}
	w.requireClosed(w.Keeper, cookies[0])
	w.requireOpen(w.Keeper, cookies[1])
	require.NoError(t, w.ledger.RevokePass(t.Context(), w.Offer.ID, "abc"))
	w.pass(fresh)
	w.requireClosed(w.Keeper, cookies[1])
	_, _, err := w.Enter(t.Context(), code)
	require.ErrorIs(t, err, ErrClosed)
	_, _, err = w.Enter(t.Context(), w.PassCode("other"))
	require.ErrorIs(t, err, ErrClosed)

	require.NoError(t, w.ledger.InsertPass(t.Context(), ledger.Pass{ID: "def", Offer: w.Offer.ID, ExpiresAt: w.now.Load() + 60}))
	cookie, _, err := w.Enter(t.Context(), w.PassCode("def"))
	require.NoError(t, err)
	w.pass(time.Minute)
	w.requireClosed(w.Keeper, cookie)
}

// Of a million texts that look like passes and codes, none opens; nor does one with a
// changed byte.
func TestForgedPassesAndCodesOpenNothing(t *testing.T) {
	w, random := newWorld(t), rand.New(rand.NewPCG(1, 2))
	h := w.pays("pi_1", nil)
	genuine := map[string]string{useCookie: w.enters(w.Keeper, h), useCode: w.Code(h), useBack: w.Back(w.Offer.Gates[0], "/members/x")}
	reads := w.ledger.reads.Load()
	n := cases.Count(t)
	for range n {
		for use, text := range genuine {
			forged := forge(random, text)
			_, err := w.open(use, forged, strings.Count(decoded(text), separator))
			require.ErrorIs(t, err, ErrClosed, forged)
		}
	}
	require.Equal(t, reads, w.ledger.reads.Load(), "a forged text costs no query")
	t.Logf("%d forged texts of each of %d uses", n, len(genuine))
}

func decoded(sealed string) string {
	encoded, _, _ := strings.Cut(sealed, ".")
	text, _ := base64.RawURLEncoding.DecodeString(encoded)
	return string(text)
}

// forge changes one character, the length, the MAC or the text.
func forge(random *rand.Rand, text string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	at := random.IntN(len(text))
	switch random.IntN(4) {
	case 0:
		return text[:at]
	case 1:
		return text + string(alphabet[random.IntN(len(alphabet))])
	case 2:
		body, _, _ := strings.Cut(text, ".")
		mac := make([]byte, macSize)
		for i := range mac {
			mac[i] = byte(random.Uint32())
		}
		return body + "." + base64.RawURLEncoding.EncodeToString(mac)
	}
	for {
		if c := alphabet[random.IntN(len(alphabet))]; c != text[at] {
			return text[:at] + string(c) + text[at+1:]
		}
	}
}

// Nobody but the gate chooses where a payer goes, and never the host.
func TestALinkLeadsToAGateOfTheOffer(t *testing.T) {
	w := newWorld(t)
	for back, want := range map[string]string{
		"":                      "https://example.org/members/?pay_offer=CODE",
		"https://evil.example/": "https://example.org/members/?pay_offer=CODE",
		w.Back(w.Offer.Gates[0], "/members/a?b=c"):                   "https://example.org/members/a?b=c&pay_offer=CODE",
		w.Back(w.Offer.Gates[1], "/x.zip"):                           "https://files.example.org/x.zip?pay_offer=CODE",
		w.Back(offer.Gate{Start: "https://gone.example.org/"}, "/x"): "https://example.org/members/?pay_offer=CODE",
		w.instance("other.example.org").Back(w.Offer.Gates[1], "/x"): "https://example.org/members/?pay_offer=CODE",
	} {
		link := w.Link("CODE", back)
		require.Equal(t, want, link)
		u, err := url.Parse(link)
		require.NoError(t, err)
		require.Contains(t, []string{"example.org", "files.example.org"}, u.Host)
	}
}

func TestACookieIsBoundToItsHost(t *testing.T) {
	w := newWorld(t)
	require.Regexp(t, `^__Host-pay_offer_[0-9a-f]{8}$`, w.CookieName("https://example.org"))
	require.Regexp(t, `^pay_offer_[0-9a-f]{8}$`, w.CookieName("http://localhost:8403"))
	require.NotEqual(t, w.CookieName("https://example.org"), w.instance("other.example.org").CookieName("https://example.org"))
	require.Equal(t, "n=v; Path=/; Max-Age=60; HttpOnly; Secure; SameSite=Lax", Cookie("n", "v", "https://example.org", time.Minute).String())
	require.Equal(t, "n=v; Path=/; Max-Age=60; HttpOnly; SameSite=Lax", Cookie("n", "v", "http://localhost", time.Minute).String())
}

// A hundred requests with one pass cost one query, and all pass.
func TestCopiesOfAPassAskTheLedgerOnce(t *testing.T) {
	w := newWorld(t)
	cookie := w.enters(w.Keeper, w.pays("pi_1", nil))
	w.requireOpen(w.Keeper, cookie)
	w.pass(fresh - time.Second)
	reads := w.ledger.reads.Load()
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			_, err := w.ByCookie(t.Context(), cookie, access)
			require.NoError(t, err)
		})
	}
	all.Wait()
	require.Equal(t, reads, w.ledger.reads.Load())
}

func TestPaidContentIsPrivate(t *testing.T) {
	const vary = "Cookie, Authorization, Payment-Signature"
	for n, c := range []struct{ cache, vary, wantCache, wantVary string }{
		{"", "", "private", vary},
		{"public, max-age=300", "Accept-Encoding", "private, max-age=300", vary + ", Accept-Encoding"},
		{"s-maxage=60,Public , immutable", "cookie,Accept", "private, immutable", vary + ", Accept"},
		{"no-store", "*", "private, no-store", vary + ", *"},
		{`private="x", max-age=1`, "", "private, max-age=1", vary},
	} {
		h := http.Header{"Cache-Control": {c.cache}, "Vary": {c.vary}, "Cdn-Cache-Control": {"public"}, "Surrogate-Control": {"max-age=9"}}
		Private(h)
		require.Equal(t, http.Header{"Cache-Control": {c.wantCache}, "Vary": {c.wantVary}}, h, fmt.Sprint(n))
	}
	two := http.Header{"Cache-Control": {"max-age=1", "public"}, "Vary": {"A", "B, a"}}
	Private(two)
	require.Equal(t, http.Header{"Cache-Control": {"private, max-age=1"}, "Vary": {vary + ", A, B"}}, two)
}

func BenchmarkByCookie(b *testing.B) {
	w := newWorld(b)
	cookie := w.enters(w.Keeper, w.pays("pi_1", nil))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.ByCookie(b.Context(), cookie, access); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPrivate(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Private(http.Header{"Vary": {"Accept-Encoding"}})
	}
}
