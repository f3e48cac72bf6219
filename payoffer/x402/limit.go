package x402

import (
	"maps"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limit bounds the payment attempts of one client: Attempts (at least 1) in Period.
type Limit struct {
	Attempts int
	Period   time.Duration
}

// maxClients bounds the memory of a Limiter.
const maxClients = 10_000

// Limiter has a token bucket for each client. It is safe for concurrent use.
type Limiter struct {
	limit   Limit
	mu      sync.Mutex
	clients map[string]*rate.Limiter
}

func NewLimiter(limit Limit) *Limiter {
	return &Limiter{limit: limit, clients: make(map[string]*rate.Limiter)}
}

// TakeAttempt takes one attempt from the client's bucket and returns 0. If the bucket is empty, it returns the time to wait.
func (l *Limiter) TakeAttempt(client string, now time.Time) time.Duration {
	client = ClientNetwork(client, 64)
	l.mu.Lock()
	defer l.mu.Unlock()
	bucket, known := l.clients[client]
	if !known {
		l.makeRoom(now)
		bucket = rate.NewLimiter(rate.Every(l.limit.Period/time.Duration(l.limit.Attempts)), l.limit.Attempts)
		l.clients[client] = bucket
	}
	reservation := bucket.ReserveN(now, 1)
	delay := reservation.DelayFrom(now)
	if delay > 0 {
		reservation.CancelAt(now)
	}
	return delay
}

// ClientNetwork is the IPv4 address of a client, which IPv6 may contain, or its IPv6 network of
// so many bits: one of 64 bits belongs to one client, and one of 48 often does.
func ClientNetwork(client string, bits int) string {
	address, err := netip.ParseAddr(client)
	if err != nil {
		return client
	}
	if address = address.Unmap().WithZone(""); address.Is4() {
		return address.String()
	}
	prefix, _ := address.Prefix(bits) // IPv6 has as many bits
	return prefix.String()
}

// makeRoom drops the clients with full buckets, and then any until a tenth is free, if there are too many.
func (l *Limiter) makeRoom(now time.Time) {
	if len(l.clients) < maxClients {
		return
	}
	maps.DeleteFunc(l.clients, func(_ string, bucket *rate.Limiter) bool { return bucket.TokensAt(now) >= float64(l.limit.Attempts) })
	maps.DeleteFunc(l.clients, func(string, *rate.Limiter) bool { return len(l.clients) > maxClients-maxClients/10 })
}
