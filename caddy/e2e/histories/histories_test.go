package histories

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	random "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// seedVariable is the environment variable that names the one history to be played.
const seedVariable = "HISTORY"

// fixed are histories that went wrong once.
var fixed = []uint64{12594626181320557109}

// together is how many histories share a ground: chains grow slow with their length.
const together = 20

func TestRandomHistoriesChargeEachPurchaseOnce(t *testing.T) {
	for name, database := range map[string]database{"SQLite": sqlite, "PostgreSQL": postgreSQL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seeds := seeds(t)
			for begin := 0; begin < len(seeds); begin += together {
				some := seeds[begin:min(begin+together, len(seeds))]
				t.Run(fmt.Sprintf("from %d", begin), func(t *testing.T) {
					g := openGround(t, database)
					for _, seed := range some {
						t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { play(t, g, seed) })
					}
				})
			}
		})
	}
}

// seeds are those of the histories to be played, or the one that is asked for. With FULL=1 go test needs -timeout 1h.
func seeds(t *testing.T) (seeds []uint64) {
	t.Helper()
	if asked := os.Getenv(seedVariable); asked != "" {
		seed, err := strconv.ParseUint(asked, 10, 64)
		require.NoError(t, err)
		return []uint64{seed}
	}
	count := cases.EndToEnd(5, 25, 500)
	t.Logf("%d random histories", count)
	seeds = slices.Clone(fixed)
	for range count {
		seeds = append(seeds, random.Uint64())
	}
	return seeds
}

func play(t *testing.T, g *ground, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, g, seed)
		defer w.close()
		w.live()
		w.model.judge()
		if w.script.gated {
			t.Logf("gated, charge first %v: the content %d times for %d purchases", w.script.first, len(w.model.openings), len(w.model.purchases))
		}
		if len(w.model.faults) > 0 {
			t.Errorf("%s\n\nThe history, which %s=%d repeats:\n%s",
				strings.Join(w.model.faults, "\n"), seedVariable, seed, strings.Join(w.model.story, "\n"))
		}
	})
}

// live lets everything happen, and ends when all is decided and everything was tried once more.
func (w *world) live() {
	for _, loop := range []func(){w.mine, w.release, w.rain, w.stranger} {
		w.background.Go(loop)
	}
	troubled, calm := context.WithCancel(w.over)
	var troubles, purchases sync.WaitGroup
	troubles.Go(func() { w.operate(troubled) })
	troubles.Go(func() { w.storm(troubled) })
	for n := range w.script.payers {
		b := &buyer{world: w, dice: w.dice(100 + uint64(n)), key: w.payers[n], name: string(rune('A' + n))}
		purchases.Go(func() {
			time.Sleep(b.between(time.Millisecond, 10*time.Second))
			count := 1 + b.roll(w.script.purchases)
			if w.script.gated {
				count = 1 // what is open needs no second payment
			}
			b.buy(count)
		})
	}
	purchases.Wait()
	calm()
	troubles.Wait()
	w.model.note("the purchases are over; everything works again")
	w.heal()
	last := w.dice(7)
	for _, p := range w.model.seen() {
		w.replay(last, p)
	}
	time.Sleep(time.Minute) // what was held up happens now
	w.awaitDecided()
}

// gateStart is the address behind the gate, where content is.
const (
	gateStart = "https://pay.example/members/"
	content   = "the content"
)

// watched is a service whose outcomes the test sees.
type watched struct{ *x402.Service }

type outcomeKey struct{}

// Verify is that of the service.
func (w watched) Verify(ctx context.Context, a x402.Attempt) (*x402.Verified, x402.Outcome) {
	outcome := ctx.Value(outcomeKey{}).(*x402.Outcome)
	verified, o := w.Service.Verify(ctx, a)
	if verified == nil {
		*outcome = o
		return nil, o
	}
	charge := verified.Charge
	verified.Charge = func(ctx context.Context) x402.Outcome {
		*outcome = charge(ctx)
		return *outcome
	}
	return verified, o
}

// openGate makes the gate of a configuration.
func (w *world) openGate(o *offer.Offer, p *process) *web.Gate {
	route := offer.Gate{Start: gateStart, Access: 30 * 24 * time.Hour, ChargeFirst: w.script.first}
	o.Gates = []offer.Gate{route}
	s, err := web.New(web.Config{
		Offer: o, Payments: watched{p.service}, Receipts: p.book, Agent: http.NotFoundHandler(), Now: w.now,
		Live: func() offer.Live { return offer.Live{} }, Health: func() []observe.Health { return nil },
		WaitStarted: func(context.Context) {}, ClockOffset: func() time.Duration { return 0 },
		QRKey: func() []byte { return []byte(strings.Repeat("k", 32)) }, ClientIP: func(r *http.Request) string { return r.RemoteAddr },
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	require.NoError(w.t, err)
	return s.Gate(route)
}

// connection is that of a client, which may be cut before everything is written.
type connection struct {
	*httptest.ResponseRecorder
	whole func() bool
}

var errGone = errors.New("the connection is cut")

// FlushError implements the flusher of http.ResponseController.
func (c connection) FlushError() error {
	if c.whole() {
		return nil
	}
	return errGone
}

// visit requests the gated address with a payment. The outcome is what the service said, and settled if it was not asked,
// because the payment is a pass.
func (w *world) visit(ctx context.Context, g *web.Gate, p *payment, payload []byte, who string, buyer bool, f fate) (o x402.Outcome, arrived bool) {
	public := w.model.isPublic(p)
	passage := new(web.Passage)
	c := connection{httptest.NewRecorder(), func() bool { return ctx.Err() == nil && !f.loses }}
	r := httptest.NewRequestWithContext(context.WithValue(ctx, outcomeKey{}, &o), http.MethodPost, gateStart, nil)
	header := "Payment-Signature"
	if strings.HasPrefix(string(payload), `{"network"`) { // version 1
		header = "X-Payment"
	}
	r.Header.Set(header, base64.StdEncoding.EncodeToString(payload))
	d := w.moment()
	err := g.Serve(c, r, web.Visit{URI: "/members/", Passage: passage, Next: func(rw http.ResponseWriter, _ *http.Request) error {
		if d.chance(0.2) {
			time.Sleep(d.between(time.Millisecond, 10*time.Second))
		}
		if w.script.fails && d.chance(0.3) {
			http.Error(rw, "the application fails", http.StatusInternalServerError)
			return nil
		}
		_, _ = io.WriteString(rw, content) // an error is a refused charge
		return nil
	}})
	require.NoError(w.t, err)
	var by string
	if strings.Contains(c.Body.String(), content) {
		granted, _ := passage.Grant()
		by = cmp.Or(granted.Payment, "nobody")
	}
	arrived = c.whole()
	if o.Status != "" {
		w.model.answered(p, o, who, buyer, arrived)
	}
	switch {
	case by != "":
		w.model.delivered(p, by, who, buyer, public, arrived)
	case buyer && o.Status == x402.Settled && c.Code == http.StatusPaymentRequired:
		w.model.fault("the buyer of %s was charged, and is asked to pay again", p.name)
	}
	return o, arrived
}

// A payer loses the answer with the content. A stranger who sends the calldata gets an answer without it, which is not the
// payer's: whenever the payer signs again, the first charge opens the gate.
func TestCalldataCopyDoesNotAcknowledgeCharge(t *testing.T) {
	for _, first := range []bool{false, true} {
		t.Run(fmt.Sprint("charge first ", first), func(t *testing.T) { acknowledgesNoCharge(t, first) })
	}
}

func acknowledgesNoCharge(t *testing.T, first bool) {
	g := openGround(t, sqlite)
	synctest.Test(t, func(t *testing.T) {
		yes := []payoffertest.FacilitatorReply{{}}
		w := newWorld(t, g, 1, func(s *script) { *s = script{facilitators: 1, verify: yes, settle: yes, gated: true, first: first} })
		defer w.close()
		w.background.Go(w.mine)
		p := &purchase{name: "A"}
		w.model.begin(p)
		lost := w.sign(p, w.payers[0])
		w.post(lost, lost.payload(t, "", lost.token), "A", true, fate{loses: true})
		time.Sleep(time.Minute) // it is charged
		for _, payload := range [][]byte{lost.payloadV1(t), lost.payload(t, "", ""), lost.payload(t, "", rand.Text())} {
			o, _ := w.post(lost, payload, "stranger", false, whole)
			require.Equal(t, x402.Settled, o.Status)
		}
		time.Sleep(time.Hour)
		require.False(t, w.model.over(p))
		again := w.sign(p, w.payers[0])
		w.post(again, again.payload(t, "", again.token), "A", true, whole)
		w.model.judge()
		require.Empty(t, w.model.faults, strings.Join(w.model.story, "\n"))
	})
}
