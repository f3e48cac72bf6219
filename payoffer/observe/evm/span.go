package evm

import "sync"

const (
	// spanFirst is how many blocks are asked for at first, and spanMost how
	// many at most: endpoints bound the blocks, the logs or the time of one
	// query, each in its own way.
	spanFirst = 1000
	spanMost  = 5000
)

// span is how many blocks one endpoint is asked for at once: half as many
// after each failure, a quarter more after each success.
type span struct {
	mu     sync.Mutex
	blocks uint64
}

func (s *span) size() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blocks == 0 {
		s.blocks = spanFirst
	}
	return s.blocks
}

func (s *span) grow() {
	size := s.size()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocks = min(size+max(size/4, 1), spanMost)
}

// shrink reports whether there is less to ask for than the size that failed.
func (s *span) shrink() bool {
	size := s.size()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocks = max(size/2, 1)
	return size > 1
}
