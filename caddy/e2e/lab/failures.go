package lab

import (
	"sync"
	"testing"
)

// Failures collects the failures of concurrent clients: the number of each kind, and the details of its first.
type Failures struct {
	mu    sync.Mutex
	first map[string]string
	count map[string]int
}

// Add adds a failure.
func (f *Failures) Add(what, detail string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == nil {
		f.first, f.count = map[string]string{}, map[string]int{}
	}
	if f.count[what]++; f.count[what] == 1 {
		f.first[what] = detail
	}
}

// Report fails the test for each kind.
func (f *Failures) Report(t testing.TB) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for what, count := range f.count {
		t.Errorf("%s: %d times; first %s", what, count, f.first[what])
	}
}
