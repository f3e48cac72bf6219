package rate

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/cases"
)

// The bounds of the model. What is quoted for 42 USD may be worth 41 to 43: the rate
// may be off by 2.38 %. Of that maxSpreadPercent is for liars, who must be so near to
// an honest source. The rest is for what the honest do not know themselves: a
// rate is used for 10 minutes and was up to 5 minutes old when a source told it,
// in which the price may walk 15 steps, and each source adds its noise. No rule
// could do better in a market that moves faster.
const (
	sampleMinutes = int(maxSampleAge / time.Minute)
	rateMinutes   = int(maxAge / time.Minute)
	step          = 0.0007
	noise         = 0.002
)

// market is the true price, which walks, jumps now and then, and is told by sources
// of which some lie together.
type market struct {
	random   *rand.Rand
	sources  []string
	liars    int       // the first of the sources
	price    []float64 // true at each minute until now, in USD
	jumped   int       // the minute of the last honest jump
	silent   []reason  // of each source, while it does not answer
	strategy int       // of the liars, for a while
	believed float64   // the rate that is used, 0 for none
}

// newMarket has up to two liars among four sources, and one among fewer: of three,
// two that lie are most, and of two one is half.
func newMarket(seed uint64) *market {
	random := rand.New(rand.NewPCG(seed, 42))
	m := &market{random: random, price: []float64{1_000 + 500_000*random.Float64()}, jumped: -60}
	for _, p := range known {
		m.sources = append(m.sources, p.name)
	}
	random.Shuffle(len(m.sources), func(i, j int) { m.sources[i], m.sources[j] = m.sources[j], m.sources[i] })
	m.liars = random.IntN(3)
	if set := 2 + random.IntN(8); set < len(m.sources) {
		m.sources, m.liars = m.sources[:set], m.liars/2
	}
	m.silent = make([]reason, len(m.sources))
	return m
}

// pass lets a minute pass.
func (m *market) pass() {
	price := m.price[len(m.price)-1] * (1 + step*(2*m.random.Float64()-1))
	if m.random.IntN(90) == 0 {
		price *= 0.5 + m.random.Float64()
		m.jumped = len(m.price)
	}
	m.price = append(m.price, min(max(price, 1_000), 5_000_000))
	for i := range m.silent {
		switch m.random.IntN(60) {
		case 0, 1: // it goes
			m.silent[i] = []reason{reasonUnreachable, reasonStale}[m.random.IntN(2)]
		case 2: // it is restarted, and answers again
			m.silent[i] = ""
		case 3, 4, 5, 6:
			m.silent[i] = ""
		}
	}
	if m.random.IntN(15) == 0 {
		m.strategy = m.random.IntN(10)
	}
}

// tell is what each source says now, 0 for one that is silent. The liars know what the
// honest say and what is believed.
func (m *market) tell() []int64 {
	told := make([]int64, len(m.sources))
	now := len(m.price) - 1
	low, high := 0.0, 0.0
	for i := m.liars; i < len(told); i++ {
		price := m.price[max(0, now-m.random.IntN(sampleMinutes+1))] * (1 + noise*(2*m.random.Float64()-1))
		told[i] = int64(price * microUSDPerUSD)
		if m.silent[i] == "" {
			if low == 0 || price < low {
				low = price
			}
			high = max(high, price)
		}
	}
	if low == 0 {
		low, high = m.price[now], m.price[now]
	}
	for i := range m.liars {
		told[i] = int64(max(101, m.lie(i, low, high)) * microUSDPerUSD)
	}
	for i, why := range m.silent {
		if why != "" {
			told[i] = 0
		}
	}
	return told
}

// lie is what liar i says, by what suits them best of what they know.
func (m *market) lie(i int, low, high float64) float64 {
	believed := m.believed
	if believed == 0 {
		believed = m.price[len(m.price)-1]
	}
	switch m.strategy {
	case 0: // as far down as an honest source agrees with
		return high / 1.01
	case 1:
		return low / 1.01
	case 2: // and up
		return low * 1.01
	case 3:
		return high * 1.01
	case 4: // a group of their own, as far down as the median allows
		return low * 0.961
	case 5: // down in steps that are no jumps
		return believed * 0.801
	case 6:
		return believed * 1.199
	case 7:
		return low / 30
	case 8: // each his own
		return low * (1 + 0.02*float64(i) - 0.01)
	}
	return low // honest, for now
}

// right reports whether satoshis are worth 41 to 43 USD now; for as long after a
// jump as a rate of before it may be used, also if they were before.
func (m *market) right(satoshis int64) bool {
	now := len(m.price) - 1
	first := now
	if now-m.jumped <= sampleMinutes+rateMinutes {
		first = max(0, now-sampleMinutes-rateMinutes)
	}
	return slices.ContainsFunc(m.price[first:], func(price float64) bool {
		worth := float64(satoshis) * price / satoshisPerBTC
		return 41 <= worth && worth <= 43
	})
}

// clear reports whether all of at least jumpQuorum sources are honest, are asked and
// answer, none with a price of before a jump.
func (m *market) clear(w *Watcher, told []int64) bool {
	paused := func(f *feed) bool { return m.now().Before(f.due) }
	return m.liars == 0 && len(told) >= jumpQuorum && !slices.Contains(told, 0) && !slices.ContainsFunc(w.feeds, paused) &&
		len(m.price)-1-m.jumped > sampleMinutes
}

// play runs one history of a market to its end: start makes a Watcher, again where
// the process is restarted, and round has it asked what the sources tell.
func (m *market) play(start func() *Watcher, round func(w *Watcher, told []int64)) (quoted int, wrong string) {
	w := start()
	for minute := range 40 + m.random.IntN(80) {
		if m.random.IntN(200) == 0 {
			w = start()
		}
		told := m.tell()
		clear := m.clear(w, told)
		round(w, told)
		current, known := w.Current()
		if m.believed = 0; known {
			quoted++
			m.believed = float64(current.MicroUSD) / microUSDPerUSD
			if satoshis := Satoshis(4200, current); !m.right(satoshis) {
				return 0, fmt.Sprintf("minute %d: %d satoshis at %.2f, on the word of %v", minute, satoshis, m.price[len(m.price)-1], current.Sources)
			}
		}
		if clear && !current.At.Equal(w.now()) {
			return 0, fmt.Sprintf("minute %d: nobody lies, all answer, and it is not believed", minute)
		}
		m.pass()
	}
	return quoted, ""
}

func (m *market) now() time.Time {
	return sampleTime.Add(time.Duration(len(m.price)) * time.Minute)
}

func (m *market) watcher(t *testing.T, rounds http.RoundTripper) func() *Watcher {
	return func() *Watcher {
		w, err := New(Config{Sources: m.sources, Transport: rounds, Now: m.now, Random: func() float64 { return 0 }})
		require.NoError(t, err)
		return w
	}
}

// Up to two sources lie, together and knowing everything, while others fail, lag and
// come back, and the process is started again: no quote is ever worth less than 41
// or more than 43 USD. This holds however few of the honest answer, for the liars
// alone are no quorum.
func TestRandomHistoriesWithLiarsNeverQuoteAWrongPrice(t *testing.T) {
	quoted := 0
	for n := range cases.Count(t) {
		m := newMarket(uint64(n))
		q, wrong := m.play(m.watcher(t, nil), func(w *Watcher, told []int64) {
			var answers []answer
			for i, f := range w.feeds {
				if !w.now().Before(f.due) {
					answers = append(answers, answer{f, told[i], m.silent[i]})
				}
			}
			w.settle(answers, w.now())
		})
		require.Empty(t, wrong, "history %d of %v with %d liars", n, m.sources, m.liars)
		quoted += q
	}
	t.Logf("%d minutes with a quote", quoted)
}

// The same through whole rounds of the Watcher.
func TestRandomHistoriesOfAWholeWatcherNeverQuoteAWrongPrice(t *testing.T) {
	for n := range cases.Of(50, 500, 5_000) {
		m := newMarket(uint64(n))
		var told []int64
		sources := transport(func(r *http.Request) (*http.Response, error) {
			i := slices.IndexFunc(m.sources, func(name string) bool { return strings.Contains(r.URL.Host, name) })
			if told[i] == 0 {
				return nil, io.ErrUnexpectedEOF
			}
			body := priceBody(m.sources[i], told[i], m.now())
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}, nil
		})
		_, wrong := m.play(m.watcher(t, sources), func(w *Watcher, now []int64) {
			told = now
			w.Refresh(context.Background())
		})
		require.Empty(t, wrong, "history %d of %v with %d liars", n, m.sources, m.liars)
	}
}

// priceBody is a price in the shape of a source.
func priceBody(source string, microUSD int64, now time.Time) string {
	price := strconv.FormatInt(microUSD/microUSDPerUSD, 10) + fmt.Sprintf(".%06d", microUSD%microUSDPerUSD)
	switch source {
	case "mempool":
		return fmt.Sprintf(`{"time":%d,"USD":%s}`, now.Unix(), price)
	case "coinbase":
		return `{"data":{"amount":"` + price + `","base":"BTC","currency":"USD"}}`
	case "kraken":
		return `{"error":[],"result":{"XXBTZUSD":{"c":["` + price + `","1"]}}}`
	default:
		return fmt.Sprintf(`{"timestamp":"%d","last":"%s"}`, now.Unix(), price)
	}
}
