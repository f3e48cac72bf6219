package observe

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATroubleWithDeliveriesIsToldOnceAndEndsWithAGoodOne(t *testing.T) {
	for name, test := range map[string]struct {
		noted   []Verdict
		trouble string
		lines   int
	}{
		"nothing":                               {nil, "", 0},
		"good ones":                             {[]Verdict{Recorded, Ignored}, "", 0},
		"nine with another secret":              {[]Verdict{Unverified, Unverified, Unverified, Unverified, Unverified, Unverified, Unverified, Unverified, Unverified}, ErrUnverified, 1},
		"one that cannot be read":               {[]Verdict{Malformed, Malformed}, ErrMalformed, 1},
		"a full disk":                           {[]Verdict{Unavailable, Unavailable, Unavailable}, ErrLedger, 1},
		"recorded after another secret":         {[]Verdict{Unverified, Recorded}, "", 2},
		"ignored after another secret":          {[]Verdict{Unverified, Ignored}, "", 2},
		"ignored after a full disk":             {[]Verdict{Unavailable, Ignored}, ErrLedger, 1},
		"recorded after a full disk":            {[]Verdict{Unavailable, Recorded}, "", 2},
		"what is worse is told":                 {[]Verdict{Unverified, Malformed, Unavailable}, ErrLedger, 3},
		"what anybody may send does not hide":   {[]Verdict{Malformed, Unverified}, ErrMalformed, 1},
		"nor does it hide that nothing is kept": {[]Verdict{Unavailable, Malformed, Unverified}, ErrLedger, 1},
		"another one after the end":             {[]Verdict{Unverified, Recorded, Unverified}, ErrUnverified, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			d := Deliveries{Option: "webhook_secret", Logger: slog.New(slog.NewTextHandler(&log, nil))}
			for _, v := range test.noted {
				d.Update(v, "why")
			}
			require.Equal(t, test.trouble, d.Trouble())
			require.Equal(t, test.lines, strings.Count(log.String(), "\n"), log.String())
			if test.trouble != "" {
				require.Contains(t, log.String(), "option=webhook_secret")
			}
			d.ClearLedgerError()
			require.Equal(t, test.trouble == ErrLedger, d.Trouble() != test.trouble)
		})
	}
}
