package x402

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"sync"
)

// headerExtensions is where a facilitator says what became of the extensions of a
// payment, to the server alone (x402, Bazaar, "Verify and Settlement Response
// Sidechannel").
const headerExtensions = "Extension-Responses"

// maxExtensions bounds the header in bytes of base64.
const maxExtensions = 8 << 10

// listingStates are what the status of a Listing can be.
var listingStates = []string{"success", "processing", notListed}

const notListed = "rejected"

// Listing is what a facilitator says of showing the payable URL in its Bazaar.
type Listing struct {
	// Status is "success", "processing" or "rejected", empty while nothing was said.
	Status string
	// Reason is why it was rejected, a text that may be passed on; or empty.
	Reason string
}

// listing reads the header of a reply. What is not in the form of the extension
// says nothing.
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
	said := Listing{Status: in.Bazaar.Status}
	if said.Status == notListed {
		_, said.Reason = f.words(reasonUnspecified, in.Bazaar.Reason)
	}
	return said
}

// listings hold what was said last, by the host of the facilitator. A settlement
// is followed by the listing, so that what is said of it stands over what was said
// when the payment was verified.
type listings struct {
	mu      sync.Mutex
	said    map[string]Listing
	settled map[string]bool
}

// note keeps what a facilitator said in answer to a call, and reports whether it is
// news.
func (l *listings) note(host, call string, said Listing) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if said.Status == "" || call != callSettle && l.settled[host] {
		return false
	}
	if l.said == nil {
		l.said, l.settled = make(map[string]Listing), make(map[string]bool)
	}
	news = l.said[host] != said
	l.said[host], l.settled[host] = said, call == callSettle
	return news
}

func (l *listings) of(host string) Listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said[host]
}

// heard keeps what a facilitator said of the listing, and logs what is new of it.
func (s *Service) heard(ctx context.Context, f *Facilitator, call string, said Listing) {
	if !s.listings.note(f.Host(), call, said) {
		return
	}
	level, reason := slog.LevelInfo, []any(nil)
	if said.Status == notListed {
		level, reason = slog.LevelWarn, []any{"reason", said.Reason}
	}
	s.Logger.With("facilitator", f.Host(), "status", said.Status).Log(ctx, level, "facilitator says whether it lists the payable address in its Bazaar", reason...)
}
