package observe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnEndpointIsWaitedForWhileItMayAnswer(t *testing.T) {
	dead := &Error{Code: ErrUnreachable, Host: "two.example"}
	type outcome struct {
		minute int
		err    error
	}
	for name, c := range map[string]struct {
		outcomes []outcome
		answered bool // in part, before
		minute   int
		want     bool
	}{
		"not asked yet":                     {want: true},
		"has never answered":                {outcomes: []outcome{{0, dead}}},
		"has answered":                      {outcomes: []outcome{{0, nil}}, minute: 60, want: true},
		"silent for nine minutes":           {outcomes: []outcome{{0, nil}, {1, dead}, {9, dead}}, minute: 10, want: true},
		"silent for ten minutes":            {outcomes: []outcome{{0, nil}, {1, dead}, {9, dead}}, minute: 11},
		"was not asked for ten minutes":     {outcomes: []outcome{{0, nil}, {11, dead}}, minute: 12, want: true},
		"back after an hour":                {outcomes: []outcome{{0, nil}, {1, dead}, {60, nil}, {61, dead}}, minute: 62, want: true},
		"answers late for the first time":   {outcomes: []outcome{{0, dead}, {60, nil}}, minute: 60, want: true},
		"answers in part from the start":    {outcomes: []outcome{{0, dead}}, answered: true, minute: 9, want: true},
		"answers only in part":              {outcomes: []outcome{{0, dead}}, answered: true, minute: 10},
		"lags":                              {outcomes: []outcome{{0, &Error{Code: ErrLagging}}}, minute: 60, want: true},
		"shows another history":             {outcomes: []outcome{{0, &Error{Code: ErrHistory}}}, minute: 60, want: true},
		"answers for another chain":         {outcomes: []outcome{{0, &Error{Code: ErrWrongChain}}}},
		"refuses the key from the start":    {outcomes: []outcome{{0, &Error{Code: ErrUnauthorized}}}},
		"answers after it was not usable":   {outcomes: []outcome{{0, &Error{Code: ErrWrongChain}}, {1, nil}}, minute: 1, want: true},
		"asks for fewer calls, for a while": {outcomes: []outcome{{0, nil}, {1, &Error{Code: ErrLimited}}}, minute: 2, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			var w Witness
			start := time.Unix(1_800_000_000, 0)
			if c.answered {
				w.MarkResponded()
			}
			for _, o := range c.outcomes {
				w.Update(o.err, start.Add(time.Duration(o.minute)*time.Minute))
			}
			require.Equal(t, c.want, w.IsLive(start.Add(time.Duration(c.minute)*time.Minute)))
		})
	}
}
