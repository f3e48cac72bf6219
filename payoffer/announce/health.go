package announce

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
}

// reached says how well the receiver is reached. It never blocks on it.
func (s *sink) reached() SinkHealth {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.health
	if trouble, _ := s.loop.Last(); trouble != "" {
		h.LastError = codeLedger
	}
	return h
}

func (s *sink) behind(count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.health.Behind = int64(count)
}

// delivered notes that the receiver took an event.
func (s *sink) delivered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.health.LastError != "" {
		s.log.Info("receipts are announced again")
	}
	s.health.LastError = ""
}

// failed notes that it did not. One that is gone is told of even when it
// failed otherwise before: that does not heal by itself.
func (s *sink) failed(f failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch before := s.health.LastError; {
	case f.code == codeGone && before != codeGone:
		s.log.Warn("a receiver of announcements says that it is gone for good; it is asked once an hour, and announcements wait for it until it is taken out of the configuration",
			"status", f.status)
	case before == "":
		s.log.Warn("receipts cannot be announced; announcements wait and are tried again", "reason", f.code, "status", f.status)
	}
	s.health.LastError = f.code
}

// left notes that another instance announces to the receiver.
func (s *sink) left() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.health.Behind, s.health.LastError = 0, ""
}
