package announce

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

const (
	testOffer   = "pay.example"
	cardAccount = "stripe/plink_1"
	usdcAccount = "eip155:84532/erc20:0x036cbd53842c5426634e7929541ec2318f3dcf7e/0x1111111111111111111111111111111111111111"
	testSecret  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// testPage is the address of a receipt's page.
func testPage(t ledger.Transition) string {
	return fmt.Sprint("https://pay.example/v1/receipt/of-", t.ReceiptID)
}

// fixture is what announcers of a test share: a ledger, a clock and a log.
type fixture struct {
	*testing.T
	outbox *outbox
	clock  *payoffertest.Clock
	log    bytes.Buffer
	seen   int
}

// newFixture opens a ledger of its own.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := payoffertest.NewClock(time.Unix(1_800_000_000, 0))
	return fixtureAt(t, ledger.NewSQLite(payoffertest.LedgerFile(t), c.Now), c)
}

func fixtureAt(t *testing.T, l *ledger.Ledger, c *payoffertest.Clock) *fixture {
	t.Helper()
	require.NoError(t, l.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	require.NoError(t, l.Register(t.Context(),
		ledger.Account{Offer: testOffer, ID: cardAccount, Rail: "card"},
		ledger.Account{Offer: testOffer, ID: usdcAccount, Rail: "usdc", Testnet: true}))
	return &fixture{T: t, outbox: &outbox{Ledger: l}, clock: c}
}

var owners atomic.Int64

// announcer makes one that sends webhooks to a receiver, as a process that has
// just started does.
func (f *fixture) announcer(r *payoffertest.Receiver) *Announcer {
	f.Helper()
	return f.configured(Config{Endpoints: []Endpoint{Webhook{URL: r.URL(), Secrets: []string{testSecret}}}, Transport: r.Transport()})
}

// listening is an announcer that sends webhooks to a receiver.
func listening(t *testing.T) (*fixture, *payoffertest.Receiver, *Announcer) {
	t.Helper()
	d, receiver := newFixture(t), payoffertest.NewReceiver(t)
	return d, receiver, d.announcer(receiver)
}

// after lets every receiver have one round, a while later.
func (f *fixture) after(while time.Duration, a *Announcer) {
	f.clock.Pass(while)
	a.rounds(f.Context())
}

// configured makes an announcer that delivers what is recorded from now on.
func (f *fixture) configured(c Config) *Announcer {
	f.Helper()
	c.Offer.ID, c.Page, c.Ledger, c.Owner = testOffer, testPage, f.outbox, fmt.Sprint("owner-", owners.Add(1))
	if c.Now == nil {
		c.Now = f.clock.Now
	}
	c.Random = func() float64 { return 0 }
	c.Logger = slog.New(slog.NewTextHandler(&f.log, nil))
	a := must(New(c))(f)
	a.rounds(f.Context())
	return a
}

// rounds lets every receiver have one round after the other.
func (a *Announcer) rounds(ctx context.Context) {
	for _, s := range a.subscribers {
		_, _ = s.loop.Once(ctx)
	}
}

// leave releases the leases, as Run does at its end.
func (a *Announcer) leave(ctx context.Context) {
	for _, s := range a.subscribers {
		s.release(ctx)
	}
}

// health is the state of each endpoint.
func (a *Announcer) health() []EndpointHealth {
	behind, err := a.config.Ledger.(*outbox).Undelivered(context.Background())
	if err != nil {
		panic(err)
	}
	return a.Health(behind)
}

// pay records one transition: a card payment that nobody has seen before.
func (f *fixture) pay() ledger.Observation {
	f.Helper()
	f.seen++
	s := cardObservation(fmt.Sprint("pi_", f.seen), ledger.StatusConfirmed)
	f.record(s)
	return s
}

func (f *fixture) record(observations ...ledger.Observation) {
	f.Helper()
	_, err := f.outbox.Ledger.Record(f.Context(), nil, observations...)
	require.NoError(f, err)
}

func cardObservation(id string, state ledger.Status) ledger.Observation {
	cents := int64(4200)
	return ledger.Observation{
		Offer: testOffer, Account: cardAccount, Rail: "card", ExternalID: id, Via: "link", Asset: "USD", Amount: 4200,
		USDCents: &cents, State: state, EvidenceLevel: ledger.LevelSigned, OccurredAt: 1_799_999_000, Cause: "webhook",
	}
}

func usdcObservation(tx string, state ledger.Status) ledger.Observation {
	cents := int64(4200)
	return ledger.Observation{
		Offer: testOffer, Account: usdcAccount, Rail: "usdc", ExternalID: "eip155:84532:" + tx + ":0", Transaction: tx,
		Asset: "USDC", Amount: 42_000_000, USDCents: &cents, State: state, EvidenceLevel: ledger.LevelChain,
		Payer: "0xpayer", OccurredAt: 1_799_999_000, Cause: "poll",
	}
}

// requireLogged requires that often a line with the words.
func (f *fixture) requireLogged(times int, words string) {
	f.Helper()
	require.Equal(f, times, bytes.Count(f.log.Bytes(), []byte(words)), "%q in\n%s", words, &f.log)
}

var errOutbox = errors.New("the database is away")

// outbox is a ledger that fails on demand.
type outbox struct {
	*ledger.Ledger
	unreadable, unwritable, untotalled atomic.Bool
	leased                             atomic.Int64 // how often
}

func (o *outbox) LeaseSubscriber(ctx context.Context, offer, name, owner string, now, until int64) (int64, bool, error) {
	o.leased.Add(1)
	return o.Ledger.LeaseSubscriber(ctx, offer, name, owner, now, until)
}

func (o *outbox) LeaseSubscribers(ctx context.Context, owners map[ledger.SubscriberKey]string, now, until int64) (map[ledger.SubscriberKey]int64, error) {
	o.leased.Add(1)
	return o.Ledger.LeaseSubscribers(ctx, owners, now, until)
}

func (o *outbox) Transitions(ctx context.Context, offer string, after int64, limit int) ([]ledger.Transition, error) {
	if o.unreadable.Load() {
		return nil, errOutbox
	}
	return o.Ledger.Transitions(ctx, offer, after, limit)
}

func (o *outbox) Totals(ctx context.Context, offer string) ([]ledger.Total, error) {
	if o.untotalled.Load() {
		<-ctx.Done() // as a slow database does
		return nil, ctx.Err()
	}
	return o.Ledger.Totals(ctx, offer)
}

func (o *outbox) AdvanceSubscriber(ctx context.Context, offer, name, owner string, after int64) error {
	if o.unwritable.Load() {
		return errOutbox
	}
	return o.Ledger.AdvanceSubscriber(ctx, offer, name, owner, after)
}

// ids are the ids of the announcements without their tags, by their payloads.
func ids(t testing.TB, got []payoffertest.Announced) []string {
	t.Helper()
	all := []string{}
	for _, a := range got {
		var payload struct{ Data struct{ ID string } }
		require.NoError(t, json.Unmarshal(a.Body, &payload), "%s", a.Body)
		all = append(all, payoffertest.Untagged(t, payload.Data.ID))
	}
	return all
}

// taken are the ids that a receiver has taken, in their order.
func taken(t testing.TB, r *payoffertest.Receiver) []string {
	t.Helper()
	var got []payoffertest.Announced
	for _, a := range r.Requests() {
		if a.Taken {
			got = append(got, a)
		}
	}
	return ids(t, got)
}

// newInstances opens one new PostgreSQL database from two instances.
func newInstances(t *testing.T) [2]*fixture {
	t.Helper()
	dsn := postgres.Shared(t).DSN(t)
	c := payoffertest.NewClock(time.Unix(1_800_000_000, 0))
	var fixtures [2]*fixture
	for i := range fixtures {
		l := must(ledger.NewPostgres(dsn, c.Now))(t)
		fixtures[i] = fixtureAt(t, l, c)
	}
	return fixtures
}

func TestPostgresInstancesDeliverOnceInOrder(t *testing.T) {
	t.Parallel() // it waits for the server, and instances for each other
	const payments = 20
	for name, make := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fixtures, f := newInstances(t), make(t)
			ctx, cancel := context.WithCancel(t.Context())
			var running, recording sync.WaitGroup
			for n, d := range fixtures {
				a := f.announcer(d)
				running.Go(func() { a.Run(ctx) })
				recording.Go(func() {
					for i := range payments {
						if _, err := d.outbox.Record(ctx, nil, cardObservation(fmt.Sprintf("pi_%d_%d", n, i), ledger.StatusConfirmed)); err != nil {
							t.Error(err)
						}
						a.Notify()
					}
				})
			}
			recording.Wait()
			f.await(len(fixtures) * payments)
			cancel()
			running.Wait()
			require.Equal(t, f.history(fixtures[0]), f.taken())
		})
	}
}

func TestPostgresInstanceTakesOver(t *testing.T) {
	t.Parallel()
	fixtures, receiver := newInstances(t), payoffertest.NewReceiver(t)
	first, second := fixtures[0].announcer(receiver), fixtures[1].announcer(receiver)
	fixtures[0].pay()
	first.rounds(t.Context())
	receiver.Script(reply{Status: 503})
	fixtures[0].pay()
	first.rounds(t.Context()) // it waits for its second try, and dies

	requests := len(receiver.Requests())
	second.rounds(t.Context())
	require.Len(t, receiver.Requests(), requests, "one instance at a time")
	require.EqualValues(t, 1, second.health()[0].Behind, "whoever delivers it")
	fixtures[1].clock.Pass(leaseFor * time.Second)
	second.rounds(t.Context())
	require.Equal(t, []string{"card:pi_1:1", "card:pi_2:1"}, taken(t, receiver))
}

// Clocks differ, and an event handler may take longer than the lease lasts.
func TestInstanceWithoutLeaseStopsDelivery(t *testing.T) {
	d := newFixture(t)
	ahead := func() time.Time { return d.clock.Now().Add((leaseFor + 1) * time.Second) }
	var got []string
	events := func(who string, meanwhile func()) func(string, map[string]any) error {
		return func(_ string, data map[string]any) error {
			got = append(got, who+" "+payoffertest.Untagged(t, data["id"].(string)))
			meanwhile()
			return nil
		}
	}
	fast := d.configured(Config{Now: ahead, Emit: events("fast", func() {})})
	d.clock.Pass(2 * leaseFor * time.Second)
	slow := d.configured(Config{Emit: events("slow", func() { fast.rounds(t.Context()) })})
	d.pay()
	d.pay()
	slow.rounds(t.Context())
	require.Equal(t, []string{"slow card:pi_1:1", "fast card:pi_1:1", "fast card:pi_2:1"}, got)
	require.Empty(t, slow.health()[0].LastError)
	d.requireLogged(0, "level=WARN")
}

func TestTakeoverAfterClockSetBack(t *testing.T) {
	d, receiver := newFixture(t), payoffertest.NewReceiver(t)
	first := d.announcer(receiver)
	receiver.Script(reply{Status: 503})
	d.pay()
	first.rounds(t.Context())
	d.clock.Pass(-24 * time.Hour)
	first.rounds(t.Context()) // and it dies
	d.clock.Pass((leaseFor + 1) * time.Second)
	second := d.announcer(receiver)
	second.rounds(t.Context())
	require.Equal(t, []string{"card:pi_1:1"}, taken(t, receiver))
}

// must requires that a call succeeds.
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}
