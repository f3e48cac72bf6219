package service

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// compareTimeout bounds CompareClock.
const compareTimeout = 3 * time.Second

// CompareClock requests the Date of the upstreams of offers that are checked and do not
// run. It returns clock.Clock.Offset.
func (r *Runtime) CompareClock(ctx context.Context, offers ...*Settings) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	origins := make(map[string]bool) // without the path, which may contain a key
	for _, s := range offers {
		for _, rail := range s.Rails {
			calls, ok := rail.(upstreamed)
			if !ok {
				continue
			}
			for _, address := range calls.upstreams() {
				if u, err := offer.ParseURL(address); err == nil {
					origins[u.Scheme+"://"+u.Host+"/"] = true
				}
			}
		}
	}
	client := http.Client{Transport: r.transport("facilitator"), CheckRedirect: source.NoRedirect}
	var requests sync.WaitGroup
	for origin := range origins {
		requests.Go(func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodHead, origin, nil)
			if err != nil {
				return
			}
			if response, err := client.Do(request); err == nil {
				_ = response.Body.Close()
			}
		})
	}
	requests.Wait()
	return r.Clock.Offset()
}
