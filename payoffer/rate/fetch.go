package rate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
)

const (
	fetchTimeout = 3 * time.Second
	maxBody      = 64 << 10 // bytes
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

// fetch asks one source once; the reason is empty if it got a price.
func (w *Watcher) fetch(ctx context.Context, f *feed, now time.Time) (int64, reason) {
	body, _, err := w.client.Do(ctx, source.Request{
		URL: f.url, Header: http.Header{"Accept": {"application/json"}}, Limit: maxBody,
	})
	if err != nil {
		return 0, reasonOf(err)
	}
	return f.decode(body, now)
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
