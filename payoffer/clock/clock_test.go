package clock

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// machine is a clock under test in a world where time passes as the test says.
type machine struct {
	*Clock
	true time.Time     // what time it is
	off  time.Duration // how far the machine's clock is ahead
	log  bytes.Buffer
}

func newMachine(off time.Duration) *machine {
	m := &machine{true: time.Date(2026, 11, 22, 7, 0, 0, 0, time.UTC), off: off}
	m.Clock = New(func() time.Time { return m.true.Add(m.off) }, slog.New(slog.NewTextHandler(&m.log, nil)))
	return m
}

// dates tells the clock the time of hosts that are ahead of the true one so far.
func (m *machine) dates(ahead ...time.Duration) {
	for n, a := range ahead {
		m.Date(fmt.Sprintf("host%d.example", n), m.true.Add(a))
	}
}

func (m *machine) block(ahead time.Duration) { m.Block("eip155:8453", m.true.Add(ahead).Unix()) }

func TestTheClockIsWrongByWhatTwoHostsAgreeOn(t *testing.T) {
	const s, h = time.Second, time.Hour
	for name, c := range map[string]struct {
		off   time.Duration
		dates []time.Duration
		want  time.Duration
	}{
		"nobody has said anything":            {h, nil, 0},
		"a right clock":                       {0, []time.Duration{0, 0, 0}, 0},
		"an hour ahead":                       {h, []time.Duration{0, 0}, h},
		"a minute is not wrong":               {60 * s, []time.Duration{0, 0}, 0},
		"more than a minute is":               {61 * s, []time.Duration{0, 0}, 61 * s},
		"one host alone":                      {h, []time.Duration{0}, 0},
		"one bad host":                        {0, []time.Duration{h}, 0},
		"a bad host among good ones":          {0, []time.Duration{h, 0}, 0},
		"two bad hosts that do not agree":     {0, []time.Duration{h, 2 * h}, 0},
		"as many say that the clock is right": {h, []time.Duration{0, 0, h, h}, h},
		"more say that the clock is right":    {h, []time.Duration{0, 0, h, h, h}, 0},
		"hosts that are a minute apart agree": {2 * h, []time.Duration{0, 60 * s}, 2 * h},
		"hosts that are further apart do not": {2 * h, []time.Duration{0, 61 * s}, 0},
		"the greater number is believed":      {4 * h, []time.Duration{0, 0, 2 * h, 2 * h, 0}, 4 * h},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(c.off)
			m.dates(c.dates...)
			require.Equal(t, c.want, m.Offset())
			require.Equal(t, c.want != 0, m.Wrong())
		})
	}
}

func TestABlockFromTheFutureSaysThatTheClockIsBehind(t *testing.T) {
	m := newMachine(-61 * time.Second)
	m.block(0)
	require.Equal(t, -61*time.Second, m.Offset())

	halted := newMachine(0)
	halted.block(-24 * time.Hour)
	require.False(t, halted.Wrong(), "a halted chain proves nothing")

	minute := newMachine(-60 * time.Second)
	minute.block(0)
	require.False(t, minute.Wrong())

	both := newMachine(-time.Hour)
	both.block(-12 * time.Second)
	both.dates(0, 0)
	require.Equal(t, -time.Hour, both.Offset(), "hosts are exact")
}

func TestAnOldWordProvesNothing(t *testing.T) {
	m := newMachine(-time.Hour)
	m.dates(0, 0)
	m.block(0)
	m.true = m.true.Add(10 * time.Minute)
	require.True(t, m.Wrong())
	m.true = m.true.Add(time.Second)
	require.False(t, m.Wrong())
	m.Date("host0.example", m.true)
	require.False(t, m.Wrong(), "the other host has said nothing since")
	m.Date("host1.example", m.true)
	require.True(t, m.Wrong())
}

func TestAWordFromBeforeTheClockWasSetProvesNothing(t *testing.T) {
	for name, by := range map[string]time.Duration{"back": -time.Hour, "on": 5 * time.Minute, "by little": 6 * time.Second} {
		t.Run(name, func(t *testing.T) {
			set := time.Duration(0)
			c := New(func() time.Time { return setBy(time.Now().Add(2*time.Minute), set) }, slog.New(slog.DiscardHandler))
			c.Date("one.example", time.Now())
			c.Date("two.example", time.Now())
			require.True(t, c.Wrong())
			set = by
			require.False(t, c.Wrong())
		})
	}
}

// setBy is what time.Now returns after the clock was set by whole seconds: the
// time of day has changed, and the monotonic reading, which counts what has
// passed, has not. No function of package time makes one; the seconds since 1885
// stand above the 30 bits of the nanoseconds.
func setBy(t time.Time, by time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(by/time.Second) << 30
	return t
}

func TestTheOperatorIsToldOnceAndWhenItIsOver(t *testing.T) {
	m := newMachine(-time.Hour)
	for range 5 {
		m.dates(0, 0, 0)
	}
	require.Equal(t, 1, strings.Count(m.log.String(), "level=WARN"))
	require.Contains(t, m.log.String(), "seconds_ahead=-3600")
	require.Contains(t, m.log.String(), "NTP")

	m.off = 0
	m.dates(0, 0, 0)
	require.False(t, m.Wrong())
	m.dates(0, 0, 0)
	require.Equal(t, 1, strings.Count(m.log.String(), "level=INFO"))
	require.Equal(t, 2, strings.Count(m.log.String(), "\n"))
}

// A clock that drifts passes the limit for hours, a second to and fro.
func TestAClockAtTheLimitDoesNotTurnToAndFro(t *testing.T) {
	m := newMachine(61 * time.Second)
	m.dates(0, 0)
	for _, off := range []time.Duration{60, 59, 61, 46} {
		m.true, m.off = m.true.Add(time.Minute), off*time.Second
		m.dates(0, 0)
		require.Equal(t, m.off, m.Offset())
	}
	m.off = 45 * time.Second
	m.dates(0, 0)
	require.False(t, m.Wrong())
	m.off = 60 * time.Second
	m.dates(0, 0)
	require.False(t, m.Wrong())
	require.Equal(t, 2, strings.Count(m.log.String(), "\n"))
}

func TestTheDatesOfAnswersAreHeard(t *testing.T) {
	for name, c := range map[string]struct {
		header map[string]string
		status int
		heard  bool
	}{
		"an answer":                {map[string]string{"Date": "Sun, 22 Nov 2026 07:00:00 GMT"}, 200, true},
		"one that a cache has had": {map[string]string{"Date": "Sun, 22 Nov 2026 06:00:00 GMT", "Age": "3600"}, 200, false},
		"one without a date":       {nil, 200, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Date"] = nil // not that of the server
				for name, value := range c.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(c.status)
			}))
			defer server.Close()
			m := newMachine(time.Hour)
			client := http.Client{Transport: m.Transport(server.Client().Transport)}
			response, err := client.Get(server.URL)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, c.status, response.StatusCode)
			if c.heard {
				require.Equal(t, map[string]sample{"127.0.0.1": {time.Hour, m.now()}}, m.hosts)
			} else {
				require.Empty(t, m.hosts)
			}
		})
	}
}
