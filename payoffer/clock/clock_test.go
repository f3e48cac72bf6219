package clock

import (
	"fmt"
	"net/http"
	"net/http/httptest"
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
}

func newMachine(off time.Duration) *machine {
	m := &machine{true: time.Date(2026, 11, 22, 7, 0, 0, 0, time.UTC), off: off}
	m.Clock = New(func() time.Time { return m.true.Add(m.off) })
	return m
}

// dates tells the clock the time of hosts that are ahead of the true one so far.
func (m *machine) dates(ahead ...time.Duration) {
	for n, a := range ahead {
		m.Date(fmt.Sprintf("host%d.example", n), m.true.Add(a))
	}
}

func TestTheClockIsWrongByWhatTwoHostsAgreeOn(t *testing.T) {
	const s, h = time.Second, time.Hour
	for name, c := range map[string]struct {
		off   time.Duration
		dates []time.Duration
		want  time.Duration
	}{
		"nobody has said anything":         {h, nil, 0},
		"a right clock":                    {0, []time.Duration{0, 0, 0}, 0},
		"an hour ahead":                    {h, []time.Duration{0, 0}, h},
		"a minute is not wrong":            {60 * s, []time.Duration{0, 0}, 0},
		"more than a minute is":            {61 * s, []time.Duration{0, 0}, 61 * s},
		"one host alone":                   {h, []time.Duration{0}, 0},
		"one bad host":                     {0, []time.Duration{h}, 0},
		"a bad host among good ones":       {0, []time.Duration{h, 0}, 0},
		"two bad hosts":                    {0, []time.Duration{2 * h, h}, -h},
		"half say that the clock is right": {h, []time.Duration{0, 0, h, h}, 0},
		"most say that the clock is right": {h, []time.Duration{0, 0, h, h, h}, 0},
		"most say that the clock is wrong": {h, []time.Duration{0, 30 * s, h, 0, h}, h - 30*s},
		"two hosts that are behind":        {-2 * h, []time.Duration{0, 60 * s}, -2 * h},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(c.off)
			m.dates(c.dates...)
			require.Equal(t, c.want, m.Offset())
			require.Equal(t, c.want != 0, m.Wrong())
		})
	}
}

func TestAnOldWordProvesNothing(t *testing.T) {
	m := newMachine(-time.Hour)
	m.dates(0, 0)
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
			c := New(func() time.Time { return setBy(time.Now().Add(2*time.Minute), set) })
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
