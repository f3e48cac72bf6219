package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// arrivalsAge is how old a reading of the ledger may be that is shown: other
// instances write into it, too.
const arrivalsAge = time.Second

// arrivals is what was received, as the ledger had it a moment ago, for all who
// ask. It is read when somebody asks, once at a time and off the requests, at most
// once in arrivalsAge and at once where this process has changed it since: who
// pays here and then asks is shown the payment.
type arrivals struct {
	mu   sync.Mutex
	last *reading // may be under way
	// done is the last that is not, for who need not wait.
	done atomic.Pointer[reading]
}

// reading is one reading of the ledger. What follows done is set when that is
// closed.
type reading struct {
	began time.Time
	// changes is what Receipts.Changes was before.
	changes uint64
	done    chan struct{}

	err    error
	totals []ledger.Total
	rows   []ledger.Receipt // of the newest page, and one more where there is another page
	// version is of all of it, and changes with every change of any receipt.
	version []byte
	// health is what Health was when it was done.
	health []observe.Health
	shown  cache[shownKey, shown]
}

// shownKey names an answer that is made of a reading.
type shownKey struct {
	variant string
	// offset is that of the clock in seconds, which any reading may be shown with.
	offset int64
}

// shown is an answer made of a reading, whole only for who has not got it already.
type shown struct {
	tag       string
	unchanged *response
	whole     func() *response
}

// newest is a reading that is current now. It fails as the ledger does, with ctx, or
// after ledgerTimeout.
func (s *Server) newest(ctx context.Context) (*reading, error) {
	changes := s.Receipts.Changes()
	if r := s.arrivals.kept(changes, s.Now()); r != nil {
		return r, r.err
	}
	ctx, cancel := context.WithTimeout(ctx, ledgerTimeout)
	defer cancel()
	for {
		r := s.arrivals.current(changes, s.Now(), func(r *reading) {
			reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), ledgerTimeout)
			defer cancel()
			s.read(reading, r)
		}, s.Receipts.Changes)
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if r.changes >= changes { // else it began before
			return r, r.err
		}
	}
}

// kept is the last reading where it does, else nil.
func (a *arrivals) kept(changes uint64, now time.Time) *reading {
	if r := a.done.Load(); r != nil && r.changes >= changes {
		if age := now.Sub(r.began); 0 <= age && age < arrivalsAge {
			return r
		}
	}
	return nil
}

// current is the last reading, or one that begins now where that does not do.
func (a *arrivals) current(changes uint64, now time.Time, read func(*reading), latest func() uint64) *reading {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last != nil {
		select {
		case <-a.last.done:
			if r := a.kept(changes, now); r != nil {
				return r
			}
		default:
			return a.last
		}
	}
	r := &reading{began: now, changes: latest(), done: make(chan struct{})}
	a.last = r
	go func() {
		defer close(r.done)
		defer a.done.Store(r)
		read(r)
	}()
	return r
}

// read fills the reading in. The place in the history is read first: what is
// committed meanwhile shows with the next reading at the latest.
func (s *Server) read(ctx context.Context, r *reading) {
	from, offerID := s.Receipts, s.Offer.ID
	var last ledger.Bookmark
	if last, r.err = from.Last(ctx, offerID); r.err != nil {
		return
	}
	if r.totals, r.rows, r.err = from.Books(ctx, offerID, 0, defaultReceipts+1); r.err != nil {
		return
	}
	r.rows = slices.Clone(r.rows)
	for i := range r.rows {
		if r.rows[i].EvidenceLevel != ledger.LevelManual { // of which a day is shown
			r.rows[i].Evidence = nil // may be anything
		}
	}
	sum := sha256.New()
	_ = json.NewEncoder(sum).Encode([]any{last.String(), r.totals, r.rows}) // plain values, and a hash takes all
	r.version = sum.Sum(nil)
	r.health = slices.Clone(s.Health())
}

// tag is the entity tag of a variant of what is shown of a reading. It is weak:
// what the clock and the progress of the chains alone change is left out. It is the
// same on every instance of the same offer.
func (s *Server) tag(r *reading, variant ...string) string {
	sum := sha256.New()
	sum.Write(s.edition())
	sum.Write(r.version)
	for _, h := range r.health {
		h.ObservedThrough, h.At = "", 0
		_ = json.NewEncoder(sum).Encode(h)
	}
	for _, part := range variant {
		_, _ = io.WriteString(sum, part+"\x00")
	}
	return `"` + base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:16]) + `"`
}

// newEdition is of everything that the configuration puts on what is shown.
func newEdition(o *offer.Offer) []byte {
	sum := sha256.New()
	said := []any{document.Version, o.Terms}
	for _, rail := range o.Rails {
		said = append(said, rail.Name(), rail.Test(), rail.Face())
	}
	_ = json.NewEncoder(sum).Encode(said) // plain values, and a hash takes all
	return sum.Sum(nil)
}

// unchanged is 304 to who has the variant with that tag, else nil.
func (re responder) unchanged(r *http.Request, tag string, headers ...header) *response {
	if !matches(r.Header["If-None-Match"], tag) {
		return nil
	}
	return re.notModified(tag, headers...)
}

func (re responder) notModified(tag string, headers ...header) *response {
	return re.render(http.StatusNotModified, "", cacheNever, nil, append(headers, weakTag(tag))...)
}

// weakTag is the header of a weak entity tag.
func weakTag(tag string) header { return header{"Etag", "W/" + tag} }
