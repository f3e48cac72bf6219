package service

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// compareTimeout bounds how long CompareClock waits for the slowest host.
const compareTimeout = 3 * time.Second

// CompareClock asks the hosts that settle for offers, and that their chains are
// read at, for the Date of an answer, whatever it is. It returns by how much our
// clock is proven to be ahead, as clock.Clock.Offset does. It is for a
// configuration that is checked; one that runs hears of the time all along.
func (share *Share) CompareClock(ctx context.Context, offers ...*Settings) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	origins := make(map[string]bool)
	for _, s := range offers {
		for _, address := range s.upstreams() {
			if u, err := offer.ParseURL(address); err == nil { // a key may stand in the rest of it
				origins[u.Scheme+"://"+u.Host+"/"] = true
			}
		}
	}
	client := http.Client{Transport: share.transport("facilitator"), CheckRedirect: source.NoRedirect}
	var work sync.WaitGroup
	for origin := range origins {
		work.Go(func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodHead, origin, nil)
			if err != nil {
				return
			}
			if response, err := client.Do(request); err == nil {
				_ = response.Body.Close()
			}
		})
	}
	work.Wait()
	return share.Clock.Offset()
}

// upstreams are the addresses of those who settle, and at which chains are read.
func (s *Settings) upstreams() (addresses []string) {
	for _, u := range s.USDC {
		for _, f := range u.Facilitators {
			addresses = append(addresses, f.URL)
		}
		addresses = append(addresses, u.RPC...)
	}
	return append(addresses, s.Bitcoin.Esplora...)
}
