package web

import (
	"net/http"
	"slices"
	"sync"
)

// once is an answer that is made when it is first asked for, and kept.
func once(render func() *response) answer {
	made := sync.OnceValue(render)
	return func(*http.Request) *response { return made() }
}

// shelf keeps answers by what they are asked for by. Each is made once, by who first
// asks for it, while nobody waits who asks for another one.
type shelf[K comparable, V any] struct {
	// limit is how many are kept, of those that were first asked for last. 0 means
	// all.
	limit int
	mu    sync.RWMutex
	kept  map[K]func() V
	order []K
}

// get is the answer kept for key, or the one that render makes.
func (s *shelf[K, V]) get(key K, render func() V) V {
	if kept := s.find(key); kept != nil {
		return kept()
	}
	return s.place(key, sync.OnceValue(render))()
}

// find is what makes the answer kept for key; nil where there is none.
func (s *shelf[K, V]) find(key K) func() V {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.kept[key]
}

// place keeps what makes an answer, unless somebody else was faster.
func (s *shelf[K, V]) place(key K, made func() V) func() V {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kept := s.kept[key]; kept != nil {
		return kept
	}
	if s.kept == nil {
		s.kept = make(map[K]func() V)
	}
	if s.limit > 0 {
		if len(s.order) == s.limit {
			delete(s.kept, s.order[0])
			s.order = slices.Delete(s.order, 0, 1)
		}
		s.order = append(s.order, key)
	}
	s.kept[key] = made
	return made
}
