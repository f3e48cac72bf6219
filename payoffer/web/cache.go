package web

import (
	"net/http"
	"sync"
)

// maxCached is the number of values that a cache holds. A full cache starts again empty.
const maxCached = 256

// cache keeps values by key. The first caller of a key computes its value; callers of
// other keys do not wait.
type cache[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]func() V
}

func (c *cache[K, V]) get(key K, compute func() V) V {
	c.mu.Lock()
	value := c.values[key]
	if value == nil {
		if c.values == nil || len(c.values) >= maxCached {
			c.values = make(map[K]func() V)
		}
		value = sync.OnceValue(compute)
		c.values[key] = value
	}
	c.mu.Unlock()
	return value()
}

// find returns the value of a key for which get was called.
func (c *cache[K, V]) find(key K) (value V, found bool) {
	c.mu.Lock()
	compute, found := c.values[key]
	c.mu.Unlock()
	if found {
		value = compute()
	}
	return value, found
}

// renderOnce is a response that the first request renders.
func renderOnce(render func() *response) responseFunc {
	rendered := sync.OnceValue(render)
	return func(*http.Request) *response { return rendered() }
}
