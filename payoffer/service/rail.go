package service

import (
	"log/slog"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Rail is a rail of an offer with the settings of its observer. A rail that is only
// published needs none.
type Rail interface {
	// Offered is the rail as the documents publish it.
	Offered() offer.Rail
	// observe acquires the observer and what it depends on, and registers the webhook.
	// It returns nil if the payments of the rail are not monitored.
	observe(a *acquisition) observer
}

// warner is a Rail that knows which of its settings are probably mistakes.
type warner interface{ warn(logger *slog.Logger) }

// upstreamed is a Rail that calls upstreams whose Date is compared with the clock.
type upstreamed interface{ upstreams() (addresses []string) }

// observer reads the payments of one rail. The pool runs it.
type observer interface {
	// Health says how well the rail is observed. It never blocks.
	Health() observe.Health
}

// addressObserver is the observer of a rail that publishes a new address after a payment.
type addressObserver interface {
	observer
	Load(cursors map[string]ledger.Cursor) error
	Address() string
	Listen(changed func()) (stop func())
	Quoted(satoshis, usdCents int64)
}

// constant is the health of a rail that has no observer.
type constant observe.Health

func (c constant) Health() observe.Health { return observe.Health(c) }

// Manual is a rail whose payments only the operator enters.
type Manual struct{ Rail offer.Rail }

// Offered implements Rail.
func (m Manual) Offered() offer.Rail { return m.Rail }

func (m Manual) observe(*acquisition) observer {
	return constant{Rail: m.Rail.Name(), Source: "operator"}
}

// RailsOf returns the rails of one kind, in order.
func RailsOf[R Rail](s *Settings) (found []R) {
	for _, rail := range s.Rails {
		if r, ok := rail.(R); ok {
			found = append(found, r)
		}
	}
	return found
}

// Warn logs which settings of the rails are probably mistakes.
func (s *Settings) Warn(logger *slog.Logger) {
	for _, rail := range s.Rails {
		if w, ok := rail.(warner); ok {
			w.warn(logger.With("rail", rail.Offered().Name()))
		}
	}
}

// warnUnreadSince warns of an option since without the option that reads older payments.
func warnUnreadSince(logger *slog.Logger, since int64, option string, configured bool) {
	if since > 0 && !configured {
		logger.Warn("since has no effect without "+option, "hint", "add "+option+", which reads the payments before the first start")
	}
}
