package x402

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"sync"
)

// headerExtensions reports what the facilitator did with the payment's extensions (x402, Bazaar,
// "Verify and Settlement Response Sidechannel").
const headerExtensions = "Extension-Responses"

const maxExtensions = 8 << 10

const listingRejected = "rejected"

var listingStates = []string{"success", "processing", listingRejected}

// Listing says whether a facilitator lists the payable URL in its Bazaar. Status is "success",
// "processing", "rejected", or empty if unknown; Reason is the sanitized reason of a rejection.
type Listing struct{ Status, Reason string }

// listing reads the header of a reply. A header in another form is ignored.
func (f *Facilitator) listing(h http.Header) Listing {
	value := h.Get(headerExtensions)
	if len(value) > maxExtensions {
		return Listing{}
	}
	text, err := DecodeHeader(value)
	var in struct {
		Bazaar struct {
			Status string `json:"status"`
			Reason string `json:"rejectedReason"`
		} `json:"bazaar"`
	}
	if err != nil || json.Unmarshal(text, &in) != nil || !slices.Contains(listingStates, in.Bazaar.Status) {
		return Listing{}
	}
	l := Listing{Status: in.Bazaar.Status}
	if l.Status == listingRejected {
		_, l.Reason = f.sanitize(reasonUnspecified, in.Bazaar.Reason)
	}
	return l
}

// listings contains the last Listing of each facilitator host. One of a settlement is newer than any
// of a verification, because the facilitator lists when it settles.
type listings struct {
	mu   sync.Mutex
	last map[string]lastListing
}

type lastListing struct {
	Listing
	settled bool
}

// update stores the Listing of a reply and reports whether it has changed.
func (l *listings) update(host, call string, reply Listing) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old, settled := l.last[host], call == callSettle
	if reply.Status == "" || old.settled && !settled {
		return false
	}
	if l.last == nil {
		l.last = make(map[string]lastListing)
	}
	l.last[host] = lastListing{reply, settled}
	return old.Listing != reply
}

func (l *listings) of(host string) Listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[host].Listing
}

// recordListing stores the Listing of a reply, and logs a change.
func (s *Service) recordListing(ctx context.Context, f *Facilitator, call string, reply Listing) {
	if !s.listings.update(f.Host(), call, reply) {
		return
	}
	level, reason := slog.LevelInfo, []any(nil)
	if reply.Status == listingRejected {
		level, reason = slog.LevelWarn, []any{"reason", reply.Reason}
	}
	s.Logger.With("facilitator", f.Host(), "status", reply.Status).Log(ctx, level, "facilitator reported its Bazaar listing", reason...)
}
