package announce

import (
	"log/slog"
	"sync"
	"time"
)

// SinkHealth says how well a receiver is reached.
type SinkHealth struct {
	// Host is the receiver's host, with its port where the URL has one, or
	// "events" for the events of the server. Two receivers may share a host.
	Host string
	// Behind is how many transitions the receiver has not taken yet, counted
	// up to 100; 0 while another instance announces to it.
	Behind int64
	// LastError is why it takes none now: unreachable, timeout, redirected,
	// gone, rate_limited, refused, server_error or ledger_unavailable; empty
	// while it takes them.
	LastError string
	// DeliveredAt is when it took the last one from this instance, in Unix
	// seconds; 0 for never since the start.
	DeliveredAt int64
}

// state is what is known of a receiver, for the log and for others to read.
type state struct {
	host string
	log  *slog.Logger

	mu          sync.Mutex
	waiting     int64
	code        string // of the receiver
	deliveredAt int64
}

func newState(host string, log *slog.Logger) *state { return &state{host: host, log: log} }

func (s *state) health() SinkHealth {
	s.mu.Lock()
	defer s.mu.Unlock()
	return SinkHealth{Host: s.host, Behind: s.waiting, LastError: s.code, DeliveredAt: s.deliveredAt}
}

func (s *state) behind(count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = int64(count)
}

// delivered notes that the receiver took an event.
func (s *state) delivered(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.code != "" {
		s.log.Info("receipts are announced again", "host", s.host)
	}
	s.code, s.deliveredAt = "", now.Unix()
}

// failed notes that it did not. One that is gone is told of even when it
// failed otherwise before: that does not heal by itself.
func (s *state) failed(f failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case f.code == codeGone && s.code != codeGone:
		s.log.Warn("a receiver of announcements says that it is gone for good; it is asked once an hour, and announcements wait for it until it is taken out of the configuration",
			"host", s.host, "status", f.status)
	case s.code == "":
		s.log.Warn("receipts cannot be announced; announcements wait and are tried again", "host", s.host, "reason", f.code, "status", f.status)
	}
	s.code = f.code
}

// left notes that another instance announces to the receiver.
func (s *state) left() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting, s.code = 0, ""
}
