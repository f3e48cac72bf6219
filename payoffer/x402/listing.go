package x402

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
)

// headerExtensions reports what the facilitator did with the payment's extensions (x402, Bazaar,
// "Verify and Settlement Response Sidechannel").
const headerExtensions = "Extension-Responses"

const maxExtensions = 8 << 10

const listingRejected = "rejected"

var listingStates = []string{"success", "processing", listingRejected}

// Listing says whether a facilitator lists the payable URL in its Bazaar, by its last settlement. Status is "success",
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

// recordListing stores the Listing of a settlement's reply, and logs a change. A facilitator lists when it settles.
func (s *Service) recordListing(ctx context.Context, f *Facilitator, reply Listing) {
	if reply.Status == "" {
		return
	}
	if old, _ := s.listings.Swap(f.Host(), reply); old == reply {
		return
	}
	level, reason := slog.LevelInfo, []any(nil)
	if reply.Status == listingRejected {
		level, reason = slog.LevelWarn, []any{"reason", reply.Reason}
	}
	s.Logger.With("facilitator", f.Host(), "status", reply.Status).Log(ctx, level, "facilitator reported its Bazaar listing", reason...)
}
