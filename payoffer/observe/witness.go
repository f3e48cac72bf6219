package observe

import (
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

// silentAfter is how long an endpoint that stops answering is waited for.
const silentAfter = 10 * time.Minute

// Witness says whether an endpoint of a chain is waited for. The rule:
//
// Two endpoints that are waited for must show the same; if there is only one, its word is taken. An endpoint is not
// waited for if it was asked and has answered nothing since the start, or nothing for ten minutes. It is still asked
// and reported, and its next answer makes it waited for again. So a live endpoint can contradict, and a dead one
// holds up no payment.
//
// The zero value was not asked yet.
type Witness struct {
	answered bool      // ever
	silent   time.Time // since when it has not answered; zero if it has
}

// Answered says that the endpoint has answered something, which ends no silence.
func (w *Witness) Answered() { w.answered = true }

// Note takes what came of reading all that is wanted of the endpoint. To lag and to show another history are answers.
func (w *Witness) Note(err error, now time.Time) {
	switch code := source.Code(err); {
	case code == "", code == ErrLagging, code == ErrHistory:
		*w = Witness{answered: true}
	case w.silent.IsZero():
		w.silent = now
	}
}

// Awaited reports whether the endpoint is waited for.
func (w *Witness) Awaited(now time.Time) bool {
	return w.silent.IsZero() || w.answered && now.Sub(w.silent) < silentAfter
}

// Needed is how many of the endpoints that are waited for must show the same.
func Needed(awaited int) int { return max(1, min(2, awaited)) }
