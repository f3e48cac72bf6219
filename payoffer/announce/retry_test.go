package announce

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPausesDoubleUpToFiveMinutes(t *testing.T) {
	var got []time.Duration
	for failures := 1; failures <= 9; failures++ {
		got = append(got, pause(failures, failure{code: codeRefused}, 0)/time.Second)
	}
	require.Equal(t, []time.Duration{5, 10, 20, 40, 80, 160, 300, 300, 300}, got)
	require.Equal(t, pauseMost, pause(1_000_000, failure{code: codeRefused}, 0), "for good")
	require.Equal(t, 4*time.Second, pause(1, failure{code: codeRefused}, 1), "spread over a fifth")
	require.Equal(t, time.Hour, pause(1, failure{code: codeGone}, 0))
	require.Equal(t, time.Minute, pause(1, failure{code: codeLimited, wait: time.Minute}, 1))
	require.Equal(t, 10*time.Second, pause(2, failure{code: codeLimited, wait: time.Second}, 0))
}

func TestRetryAfterIsReadInBothForms(t *testing.T) {
	now := time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                              0,
		"0":                             0,
		"120":                           2 * time.Minute,
		"3601":                          time.Hour,
		"99999999999999999999999999":    time.Hour,
		"-5":                            0,
		"1.5":                           0,
		"soon":                          0,
		"Fri, 15 Jan 2027 08:00:30 GMT": 30 * time.Second,
		"Fri, 15 Jan 2027 07:59:30 GMT": 0,
		"Sat, 15 Jan 2028 08:00:00 GMT": time.Hour,
	} {
		require.Equal(t, want, retryAfter(http.Header{"Retry-After": {value}}, now), "%q", value)
	}
	require.Zero(t, retryAfter(http.Header{}, now))
}

func FuzzRetryAfterIsNeverLongerThanAnHour(f *testing.F) {
	f.Add("120")
	f.Add("Fri, 15 Jan 2027 08:00:30 GMT")
	f.Fuzz(func(t *testing.T, value string) {
		d := retryAfter(http.Header{"Retry-After": {value}}, time.Unix(0, 0))
		require.True(t, d >= 0 && d <= time.Hour, "%v", d)
	})
}
