package bitcoin

import (
	"context"
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// quoteWindow is how long an amount that was published may be paid at the
	// value that it had.
	quoteWindow = time.Hour
	// minersClock is how much earlier than it was made a block may say it was.
	minersClock = time.Hour
	// nearPercent is how far the worth of a quoted amount may be from its price,
	// half an hour or two after the quote and by another source: on most days the
	// price of bitcoin moves less within such a time.
	nearPercent = 2
	// renewEvery is how often the quote in force is noted again.
	renewEvery = 10 * time.Minute
	// maxQuotes bounds the quotes that wait for the ledger.
	maxQuotes = 64
	// satoshisPerBTC and microUSDPerCent are units.
	satoshisPerBTC, microUSDPerCent = 100_000_000, 10_000
)

// quotes are the amounts that were published last, newest at the end.
type quotes struct {
	wake chan struct{}
	mu   sync.Mutex
	last []quote
}

type quote struct {
	satoshis, cents int64
	at, noted       time.Time // noted is zero until the ledger has it
}

// Quoted remembers that an amount in satoshis is published now for one in US
// cents: who pays exactly that within an hour has paid that value. It never
// blocks; Run keeps it in the ledger.
func (o *Observer) Quoted(satoshis, usdCents int64) {
	if satoshis <= 0 || usdCents < 0 {
		return // no amount was published
	}
	q := &o.quotes
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.last); n > 0 && q.last[n-1].satoshis == satoshis && q.last[n-1].cents == usdCents {
		q.last[n-1].at = o.config.Now()
		return
	}
	q.last = append(q.last, quote{satoshis: satoshis, cents: usdCents, at: o.config.Now()})
	q.last = slices.Delete(q.last, 0, max(0, len(q.last)-maxQuotes))
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// keepQuotes notes in the ledger what it does not have yet. The newest quote
// stays published for as long as there is a rate.
func (o *Observer) keepQuotes(ctx context.Context) error {
	q := &o.quotes
	q.mu.Lock()
	if _, quoting := o.config.Rate(); quoting && len(q.last) > 0 {
		q.last[len(q.last)-1].at = o.config.Now()
	}
	pending := slices.Clone(q.last)
	q.mu.Unlock()
	for _, p := range pending {
		if !p.noted.IsZero() && p.at.Sub(p.noted) < renewEvery {
			continue
		}
		if err := o.config.Ledger.NoteQuote(ctx, o.config.OfferID, p.satoshis, p.cents, p.at.Unix()); err != nil {
			return observe.ErrNoLedger
		}
		q.noted(p)
	}
	return nil
}

func (q *quotes) noted(p quote) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.last {
		if q.last[i].satoshis == p.satoshis && q.last[i].cents == p.cents {
			q.last[i].noted = p.at
		}
	}
}

// find is what an amount was published for between two times, in Unix seconds.
func (q *quotes) find(satoshis, since, until int64) (cents int64, found bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range slices.Backward(q.last) {
		if p.satoshis == satoshis && p.at.Unix() >= since && p.at.Unix() <= until {
			return p.cents, true
		}
	}
	return 0, false
}

// value is what a payment is worth in US cents, and how that was fixed: what it
// was quoted for, else its worth at the price of the hour it was mined in; nil
// while there is none. The ledger keeps the first value that becomes known, so
// that none is guessed from the price of the moment, and the price of the hour is
// asked for once the payment counts: before, it may move to another block.
func (o *Observer) value(ctx context.Context, row ledger.Receipt, satoshis, occurredAt int64, counts bool) (*int64, ledger.ValueBasis, error) {
	if row.USDCents != nil && row.ValueBasis != ledger.BasisStated && row.Amount == satoshis {
		return row.USDCents, row.ValueBasis, nil
	}
	seen := o.config.Now().Unix()
	if row.ID != 0 {
		seen = row.ObservedAt
	}
	// What was paid while nobody looked is held against the quotes of its day.
	paid := min(occurredAt, seen)
	since, until := paid-seconds(quoteWindow), min(seen, paid+seconds(minersClock))
	cents, found := o.quotes.find(satoshis, since, until)
	if !found {
		var err error
		if cents, found, err = o.config.Ledger.Quoted(ctx, o.config.OfferID, satoshis, since, until); err != nil {
			return nil, "", observe.ErrNoLedger
		}
	}
	switch {
	case found:
		return &cents, ledger.BasisQuote, nil
	case !counts:
		return nil, "", nil
	}
	past, known := o.config.PastRate(ctx, time.Unix(occurredAt, 0))
	if !known {
		return nil, "", nil
	}
	value := worth(satoshis, past.MicroUSD)
	if value != nil && near(*value, o.config.Price) {
		price := o.config.Price
		return &price, ledger.BasisQuote, nil
	}
	return value, ledger.BasisRate, nil
}

// valued reports whether the value of a payment that counts is known, or can be.
func (o *Observer) valued(ctx context.Context, row ledger.Receipt) bool {
	value, _, err := o.value(ctx, row, row.Amount, row.OccurredAt, true)
	return err != nil || value != nil
}

// near reports whether the worth of an amount is that of the offer's price, in US
// cents: who pays that pays a quote, also one that a ledger which was lost does not
// remember any more. It then comes out the same as when it was quoted.
func near(cents, price int64) bool {
	return (cents-price)*100 <= price*nearPercent && (price-cents)*100 <= price*nearPercent
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// worth is the value of satoshis in whole US cents at a price of one bitcoin
// in millionths of a dollar.
func worth(satoshis, microUSD int64) *int64 {
	cents := new(big.Int).Mul(big.NewInt(satoshis), big.NewInt(microUSD))
	cents.Quo(cents, big.NewInt(satoshisPerBTC*microUSDPerCent))
	if !cents.IsInt64() {
		return nil
	}
	value := cents.Int64()
	return &value
}
