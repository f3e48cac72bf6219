package observe

import (
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

// silentAfter is how long payments wait for an endpoint that stopped responding.
const silentAfter = 10 * time.Minute

// Witness records whether an endpoint of a chain is live, that is, whether payments wait for it. Two live endpoints
// must agree on a payment; a single one is trusted. An endpoint is not live if it has not responded since the start,
// or for ten minutes. It is still polled and reported, and is live again after its next response. The zero value is
// live. So a live endpoint can contradict another one, and a dead one delays no payment.
type Witness struct {
	responded bool      // ever
	silent    time.Time // the time of the first failure since the last success; zero without one
}

// MarkResponded records a response to a part of a poll. It does not end a silence.
func (w *Witness) MarkResponded() { w.responded = true }

// Update records the result of a complete poll. To lag and to show another history are responses.
func (w *Witness) Update(err error, now time.Time) {
	switch code := source.Code(err); {
	case code == "", code == ErrLagging, code == ErrHistory:
		*w = Witness{responded: true}
	case w.silent.IsZero():
		w.silent = now
	}
}

// IsLive reports whether payments wait for the endpoint.
func (w *Witness) IsLive(now time.Time) bool {
	return w.silent.IsZero() || w.responded && now.Sub(w.silent) < silentAfter
}
