package rate

import (
	"context"
	"net/http"
)

// Look is how a price source answered once.
type Look struct {
	// Source is its name, Host where it was asked.
	Source, Host string
	// Reason is a code of why its answer is of no use: "timeout", "unreachable",
	// "status_" with the HTTP status, "too_large", "malformed", "refused", "stale",
	// "absurd", "outlier" where the others agree on another price, or "disagree" where
	// those that answer agree on none; empty where it is.
	Reason string
}

// LookOnce asks each price source of a configuration once. It returns after at most
// 3 seconds.
func LookOnce(ctx context.Context, sources []string, transport http.RoundTripper) ([]Look, error) {
	w, err := New(Config{Sources: sources, Transport: transport})
	if err != nil {
		return nil, err
	}
	answers := w.ask(ctx, w.now())
	var quotes []quote
	for _, a := range answers {
		if a.failure == "" {
			quotes = append(quotes, quote{source: a.feed.name, microUSD: a.microUSD})
		}
	}
	agreed := agree(quotes, quorum(len(w.feeds)))
	var looks []Look
	for _, a := range answers {
		why := verdict(a, agreed)
		if why == "" && agreed.microUSD == 0 && len(quotes) >= quorum(len(w.feeds)) {
			why = "disagree"
		}
		looks = append(looks, Look{a.feed.name, a.feed.root.Host, string(why)})
	}
	return looks, nil
}
