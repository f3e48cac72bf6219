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
	// quoteWindow is how long a published amount can be paid at its value.
	quoteWindow = time.Hour
	// quoteLasts is how long a payment made in time can wait for its block. With a low fee the payer could otherwise
	// choose for weeks whether to pay.
	quoteLasts = 24 * time.Hour
	// priceWindow is how long after its block the current price is that of a payment.
	priceWindow = time.Hour
	// renewEvery is how often the current quote is stored again.
	renewEvery = 10 * time.Minute
	// maxQuotes bounds the quotes that wait for the ledger.
	maxQuotes                       = 64
	satoshisPerBTC, microUSDPerCent = 100_000_000, 10_000
)

// quotes are the published amounts that are not stored yet, and the current one.
type quotes struct {
	mu      sync.Mutex
	pending []quote
	current quote
}

// quote is a published amount and when it was last current.
type quote struct {
	satoshis, cents int64
	at              time.Time
}

// Quoted stores that satoshis are published for an amount in US cents. A payment of at least that, less one
// percent, within an hour has that value in proportion. It never blocks; Run stores it.
func (o *Observer) Quoted(satoshis, usdCents int64) {
	if satoshis <= 0 || usdCents < 0 {
		return // no amount was published
	}
	q := &o.quotes
	q.mu.Lock()
	defer q.mu.Unlock()
	before := q.current
	q.current = quote{satoshis, usdCents, o.config.Now()}
	if before.satoshis != satoshis || before.cents != usdCents {
		q.add(before, q.current) // the end of one, and the start of the other
		o.quoteLoop.Wake()
	}
}

// add adds published quotes to the pending ones, of which it keeps the newest.
func (q *quotes) add(quotes ...quote) {
	q.pending = slices.DeleteFunc(append(q.pending, quotes...), func(p quote) bool { return p.satoshis == 0 })
	q.pending = q.pending[max(0, len(q.pending)-maxQuotes):]
}

// renewQuote stores the current quote again, because it stays current while there is a rate.
func (o *Observer) renewQuote(ctx context.Context) (time.Duration, error) {
	o.quotes.mu.Lock()
	if _, quoting := o.config.Rate(); quoting {
		o.quotes.current.at = o.config.Now()
	}
	o.quotes.add(o.quotes.current)
	o.quotes.mu.Unlock()
	return renewEvery, o.storeQuotes(ctx)
}

// storeQuotes stores the pending quotes.
func (o *Observer) storeQuotes(ctx context.Context) error {
	q := &o.quotes
	q.mu.Lock()
	pending := q.pending
	q.pending = nil
	q.mu.Unlock()
	for i, p := range pending {
		if err := o.config.Ledger.StoreQuote(ctx, o.config.OfferID, p.satoshis, p.cents, p.at.Unix()); err != nil {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.pending = append(pending[i:], q.pending...)
			return observe.ErrNoLedger
		}
	}
	return nil
}

// value returns an output's value in US cents and its basis: by the quote that it covers, or else by the price in its
// evidence, once the payment counts. If both are unknown it is nil, and the operator can state it.
// The ledger keeps the first value of a confirmed receipt.
func (o *Observer) value(ctx context.Context, row ledger.Receipt, satoshis int64, proof evidence, occurredAt int64, counts bool) (*int64, ledger.ValueBasis, error) {
	if row.State == ledger.StatusConfirmed && row.USDCents != nil && row.ValueBasis != ledger.BasisStated && row.Amount == satoshis {
		return row.USDCents, row.ValueBasis, nil
	}
	worth, err := o.quoted(ctx, satoshis, proof, occurredAt)
	if err != nil || worth != nil {
		return worth, ledger.BasisQuote, err
	}
	if !counts || proof.MicroUSD == 0 {
		return nil, "", nil
	}
	return scale(satoshis, proof.MicroUSD, satoshisPerBTC*microUSDPerCent), ledger.BasisRate, nil
}

// priceOf returns the current price in micro USD if a block is at most priceWindow old, else 0.
func (o *Observer) priceOf(block status) int64 {
	price, known := o.config.Rate()
	if !known || o.config.Now().Unix()-block.Time > seconds(priceWindow) {
		return 0
	}
	return price.MicroUSD
}

// quoted returns the quoted value of a payment in US cents, or nil. Enough hosts must show the payment within the
// quote's time, and it must be mined soon.
func (o *Observer) quoted(ctx context.Context, satoshis int64, proof evidence, occurredAt int64) (*int64, error) {
	at := proof.First
	if proof.Block == 0 {
		occurredAt = o.config.Now().Unix() // it is mined later
	} else if at == 0 {
		at = occurredAt
	}
	if at == 0 || occurredAt-at > seconds(quoteLasts) {
		return nil, nil
	}
	// A payment made while the server was down is compared with the quotes of that time. If a miner's clock is early,
	// the quote seems too late and is not used: no quote is better than a wrong one.
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

// scale is n * times / by, rounded down; nil if it overflows.
func scale(n, times, by int64) *int64 {
	scaled := new(big.Int).Mul(big.NewInt(n), big.NewInt(times))
	if scaled.Quo(scaled, big.NewInt(by)); !scaled.IsInt64() {
		return nil
	}
	result := scaled.Int64()
	return &result
}
