package rate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
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
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	if err != nil {
		return 0, reasonUnreachable
	}
	req.Header.Set("Accept", "application/json")
	resp, err := w.client.Do(req)
	if err != nil {
		return 0, transportReason(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, reason(fmt.Sprintf("status_%d", resp.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return 0, transportReason(err)
	}
	if len(body) > maxBody {
		return 0, reasonTooLarge
	}
	return f.decode(body, now)
}

func transportReason(err error) reason {
	var netErr net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &netErr) && netErr.Timeout() {
		return reasonTimeout
	}
	return reasonUnreachable
}

// noRedirect keeps a source from sending the request elsewhere: a redirect is
// an answer without a price.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
