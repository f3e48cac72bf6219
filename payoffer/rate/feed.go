package rate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	fetchTimeout = 3 * time.Second
	maxBody      = 64 << 10 // bytes
	maxBackoff   = 5 * time.Minute
)

// reason is the code of a source's failure, empty for none. It holds nothing that came from
// the source or from its address, so it may be logged.
type reason string

const (
	reasonTimeout     reason = "timeout"
	reasonUnreachable reason = "unreachable"
	reasonTooLarge    reason = "too_large"
	reasonMalformed   reason = "malformed"
	reasonRefused     reason = "refused"
	reasonStale       reason = "stale"
	reasonAbsurd      reason = "absurd"
	reasonOutlier     reason = "outlier"
)

// feed is a configured source and how it fared. The Watcher's round lock guards it.
type feed struct {
	provider
	root *url.URL

	failures  int       // in a row, of those that call for a pause
	due       time.Time // not to be asked before
	bad       reason    // what was logged about it; empty while it is fine
	goodSince time.Time // zero unless its last answer was good
}

func newFeed(s provider, endpoint string) (*feed, error) {
	if endpoint == "" {
		endpoint = s.base
	}
	base, err := url.Parse(endpoint)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, fmt.Errorf("the endpoint of the price source %s is not an absolute http or https URL", s.name)
	}
	return &feed{provider: s, root: base}, nil
}

// at is an address below the source's root.
func (f *feed) at(path, query string) string {
	address := f.root.JoinPath(path)
	address.RawQuery = query
	return address.String()
}

// fetch asks an address once; the reason is empty if it got a price.
func (w *Watcher) fetch(ctx context.Context, address string, decode func(body []byte) (int64, reason)) (int64, reason) {
	body, _, err := w.client.Do(ctx, source.Request{
		URL: address, Header: http.Header{"Accept": {"application/json"}}, Limit: maxBody,
	})
	if err != nil {
		return 0, reasonOf(err)
	}
	return decode(body)
}

func reasonOf(err error) reason {
	var failed *source.Error
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return reasonTooLarge
	case errors.As(err, &failed) && failed.Timeout():
		return reasonTimeout
	case failed != nil && failed.Status != 0:
		return reason(fmt.Sprintf("status_%d", failed.Status))
	default:
		return reasonUnreachable
	}
}

// schedule decides when a feed may be asked again. Only failures that asking
// less often could cure call for a pause, doubled from one round up to
// maxBackoff.
func (f *feed) schedule(failure reason, now time.Time, random float64) {
	if failure == "" || failure == reasonStale {
		f.failures, f.due = 0, time.Time{}
		return
	}
	f.failures++
	f.due = now.Add(source.Backoff(f.failures, roundInterval, maxBackoff, random))
}

// note logs what is wrong with a source when it goes bad, and once more when
// it has been good for as long as a rate lives. The wait keeps a source at the
// edge of staleness, whose every other answer is too old, from filling the log.
func (f *feed) note(why reason, now time.Time, log *slog.Logger) {
	switch {
	case why != "":
		if f.bad == "" {
			log.Warn("bitcoin price source is not usable", "source", f.name, "host", f.root.Host, "reason", string(why))
		}
		f.bad, f.goodSince = why, time.Time{}
	case f.bad == "":
	case f.goodSince.IsZero():
		f.goodSince = now
	case now.Sub(f.goodSince) >= maxAge:
		log.Info("bitcoin price source is usable again", "source", f.name, "host", f.root.Host)
		f.bad = ""
	}
}
