package lab

import (
	"context"
	"sync"
	"testing"
)

// Shared is what the tests of a package share. The first test that needs it makes it, and it ends with the process.
type Shared[T any] struct {
	once  sync.Once
	made  bool
	value T
	kept  []func()
}

// Get returns the value, which make makes. The test that make gets does not clean up.
func (s *Shared[T]) Get(t testing.TB, make func(t testing.TB) T) T {
	t.Helper()
	s.once.Do(func() {
		s.value = make(lasting{t, &s.kept})
		s.made = true
	})
	if !s.made {
		t.Fatal("what the tests of this package share could not be made; see the first failed test")
	}
	return s.value
}

// lasting is a test for things that outlive it.
type lasting struct {
	testing.TB
	kept *[]func()
}

// Cleanup keeps what f refers to, such as an open pipe, until the process ends.
func (l lasting) Cleanup(f func()) { *l.kept = append(*l.kept, f) }

func (lasting) Context() context.Context { return context.Background() }
