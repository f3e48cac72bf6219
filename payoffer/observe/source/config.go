package source

import (
	"log/slog"
	"math/rand/v2"
	"time"
)

// The configurations of what stands on this package are written alike: first
// OfferID, Account and Rail (or the rail itself) as far as there are any, then
// what is particular, then these fields in this order, of which the Ledger alone
// must be given:
//
//	Ledger    Ledger            // where receipts, cursors and origins are kept
//	Transport http.RoundTripper // carries the calls; default http.DefaultTransport
//	Now       func() time.Time  // the clock; default time.Now
//	Random    func() float64    // in [0, 1), spreads pauses; default math/rand/v2
//	Logger    *slog.Logger      // told once when a trouble begins and ends; default none
//
// All of them are used by several goroutines.

// Default sets what such a configuration leaves out.
func Default(now *func() time.Time, random *func() float64, logger **slog.Logger) {
	if *now == nil {
		*now = time.Now
	}
	if *random == nil {
		*random = rand.Float64
	}
	if *logger == nil {
		*logger = slog.New(slog.DiscardHandler)
	}
}
