package x402

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLimiterRefillsStepByStep(t *testing.T) {
	l, now := NewLimiter(Limit{Attempts: 3, Period: time.Minute}), time.Unix(1_000, 0)
	for range 3 {
		require.Zero(t, l.wait("192.0.2.1", now))
	}
	for range 5 { // what is refused costs nothing
		require.Equal(t, 20*time.Second, l.wait("192.0.2.1", now))
	}
	require.InDelta(t, time.Second, l.wait("192.0.2.1", now.Add(19*time.Second)), float64(time.Microsecond))
	require.Zero(t, l.wait("192.0.2.1", now.Add(20*time.Second)))
	require.NotZero(t, l.wait("192.0.2.1", now.Add(20*time.Second)))
}

func TestLimiterTellsClientsApart(t *testing.T) {
	for _, c := range []struct {
		name, one, two string
		same           bool
	}{
		{"two addresses", "192.0.2.1", "192.0.2.2", false},
		{"two IPv6 networks", "2001:db8:0:1::1", "2001:db8:0:2::1", false},
		{"one IPv6 network", "2001:db8:0:1::1", "2001:db8:0:1:ffff::2", true},
		{"two mapped addresses", "::ffff:192.0.2.1", "::ffff:192.0.2.2", false},
		{"an address and its mapped form", "192.0.2.1", "::ffff:192.0.2.1", true},
		{"an address with a zone", "fe80::1%eth0", "fe80::2", true},
		{"no address", "", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, now := NewLimiter(Limit{Attempts: 1, Period: time.Minute}), time.Unix(1_000, 0)
			require.Zero(t, l.wait(c.one, now))
			require.Equal(t, c.same, l.wait(c.two, now) > 0)
		})
	}
}

func TestLimiterForgetsInAFlood(t *testing.T) {
	l, now := NewLimiter(Limit{Attempts: 1, Period: time.Minute}), time.Unix(1_000, 0)
	for n := range 2 * maxClients {
		require.Zero(t, l.wait(fmt.Sprint(n), now))
		require.LessOrEqual(t, len(l.clients), maxClients)
	}
	// Those whose bucket is full again go first.
	l = NewLimiter(Limit{Attempts: 1, Period: time.Minute})
	for n := range maxClients - 1 {
		l.wait(fmt.Sprint(n), now)
	}
	later := now.Add(2 * time.Minute)
	l.wait("recent", later)
	l.wait("new", later)
	require.Len(t, l.clients, 2)
	require.NotZero(t, l.wait("recent", later))
}
