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
	// quoteLasts is how long a payment that was made in time may wait for its block:
	// who offers too low a fee could choose for weeks, as the price moves, whether to
	// have it mined.
	quoteLasts = 24 * time.Hour
	// priceWindow is how long after the block of a payment the price of the moment is
	// its price.
	priceWindow = time.Hour
	// renewEvery is how often the quote in force is noted again.
	renewEvery = 10 * time.Minute
	// maxQuotes bounds the quotes that wait for the ledger.
	maxQuotes = 64
	// satoshisPerBTC and microUSDPerCent are units.
	satoshisPerBTC, microUSDPerCent = 100_000_000, 10_000
)

// quotes are the amounts that were published last, newest at the end.
type quotes struct {
	mu   sync.Mutex
	last []quote
}

type quote struct {
	satoshis, cents int64
	at, noted       time.Time // when it was in force last, and noted last; noted is zero until it was
}

// renew says that the quote is in force still. The ledger has first when that began.
func (q *quote) renew(now time.Time) {
	if !q.noted.IsZero() {
		q.at = now
	}
}

// Quoted remembers that an amount in satoshis is published now for one in US
// cents: who pays that or more within an hour has paid that value, or more in
// proportion. It never blocks; Run keeps it in the ledger.
func (o *Observer) Quoted(satoshis, usdCents int64) {
	if satoshis <= 0 || usdCents < 0 {
		return // no amount was published
	}
	q := &o.quotes
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.last); n > 0 && q.last[n-1].satoshis == satoshis && q.last[n-1].cents == usdCents {
		q.last[n-1].renew(o.config.Now())
		return
	}
	q.last = append(q.last, quote{satoshis: satoshis, cents: usdCents, at: o.config.Now()})
	q.last = slices.Delete(q.last, 0, max(0, len(q.last)-maxQuotes))
	o.noting.Wake()
}

// keepQuotes notes in the ledger what it does not have yet. The newest quote
// stays published for as long as there is a rate.
func (o *Observer) keepQuotes(ctx context.Context) error {
	q := &o.quotes
	q.mu.Lock()
	if _, quoting := o.config.Rate(); quoting && len(q.last) > 0 {
		q.last[len(q.last)-1].renew(o.config.Now())
	}
	pending := slices.Clone(q.last)
	q.mu.Unlock()
	for i, p := range pending {
		// The end of one that is not published any more is noted, too.
		since, newest := p.at.Sub(p.noted), i == len(pending)-1
		if !p.noted.IsZero() && (since == 0 || newest && since < renewEvery) {
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

// part is one output of a payment. The outputs of one transaction to this rail are
// one payment, in satoshis: those of this output, of those before it, and of all.
type part struct{ before, satoshis, total int64 }

// next moves on to the next output.
func (p *part) next(satoshis int64) { p.before, p.satoshis = p.before+p.satoshis, satoshis }

// of is the output's share of what the payment is worth. The shares of all outputs
// add up to that, and none is a cent or more away from its exact share.
func (p part) of(cents int64) *int64 {
	if p.total == 0 {
		return &cents // of nothing
	}
	share := *scale(cents, p.before+p.satoshis, p.total) - *scale(cents, p.before, p.total)
	return &share
}

// value returns the value of an output in US cents, and how it was fixed: the
// output's share of the quote that its payment covers, else of its worth at the price
// in its evidence once the payment counts. It is nil without both; then the operator can
// state it. proof is where the payment stands now, and occurredAt is the time of its
// block, if it is in one. The ledger keeps the first value of a confirmed receipt.
func (o *Observer) value(ctx context.Context, row ledger.Receipt, paid part, proof evidence, occurredAt int64, counts bool) (*int64, ledger.ValueBasis, error) {
	if row.State == ledger.StatusConfirmed && row.USDCents != nil && row.ValueBasis != ledger.BasisStated && row.Amount == paid.satoshis {
		return row.USDCents, row.ValueBasis, nil
	}
	worth, err := o.quoted(ctx, paid.total, proof, occurredAt)
	if err != nil {
		return nil, "", err
	}
	if worth != nil {
		return paid.of(*worth), ledger.BasisQuote, nil
	}
	if !counts || proof.MicroUSD == 0 {
		return nil, "", nil
	}
	if worth = scale(paid.total, proof.MicroUSD, satoshisPerBTC*microUSDPerCent); worth == nil {
		return nil, "", nil
	}
	return paid.of(*worth), ledger.BasisRate, nil
}

// priceOf returns the current price in micro USD if a block is at most priceWindow old,
// else 0: the price of the moment is not that of an older block.
func (o *Observer) priceOf(block status) int64 {
	price, known := o.config.Rate()
	if !known || o.config.Now().Unix()-block.Time > seconds(priceWindow) {
		return 0
	}
	return price.MicroUSD
}

// quoted returns what a payment of so many satoshis was quoted for, in US cents, or nil.
// Enough hosts must show the payment within the quote's time, and it must be mined not
// much later. A replacement counts as seen when the payment that it replaces was seen.
func (o *Observer) quoted(ctx context.Context, satoshis int64, proof evidence, occurredAt int64) (*int64, error) {
	at := proof.First
	if proof.Block == 0 {
		occurredAt = o.config.Now().Unix() // at the earliest
	} else if at == 0 {
		at = occurredAt
	}
	if at == 0 || occurredAt-at > seconds(quoteLasts) {
		return nil, nil
	}
	// A payment that was made while the server was down is compared with the quotes of
	// that time. A miner's clock may be an hour early; then a quote seems too late, and
	// no quote is better than a wrong one.
	at = min(at, occurredAt)
	quote, found, err := o.config.Ledger.Quoted(ctx, o.config.OfferID, satoshis, at-seconds(quoteWindow), at)
	if err != nil {
		return nil, observe.ErrNoLedger
	}
	if !found {
		return nil, nil
	}
	return scale(satoshis, quote.USDCents, quote.Satoshis), nil
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// scale is n * times / by, rounded down; nil where that is too much for the ledger.
func scale(n, times, by int64) *int64 {
	scaled := new(big.Int).Mul(big.NewInt(n), big.NewInt(times))
	if scaled.Quo(scaled, big.NewInt(by)); !scaled.IsInt64() {
		return nil
	}
	result := scaled.Int64()
	return &result
}
