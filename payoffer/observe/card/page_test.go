package card

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// endless is an API whose lists have no end.
type endless struct{ pages int }

func (e *endless) RoundTrip(r *http.Request) (*http.Response, error) {
	e.pages++
	body := fmt.Sprintf(`{"object":"list","data":[{"id":"evt_%d"}],"has_more":true}`, e.pages)
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Date": {"Sat, 28 Nov 2026 12:00:00 GMT"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

// What is beyond the last page that is read may be a payment.
func TestListPageLimit(t *testing.T) {
	api := new(endless)
	o := newRig(t, func(c *Config) { c.Transport = api }).Observer
	err := o.provider.each(t.Context(), "/v1/events", url.Values{}, func([]json.RawMessage, int64) error { return nil })
	require.Error(t, err)
	require.Equal(t, maxPages, api.pages)
}

// brittle is a ledger that cannot be written at times.
type brittle struct {
	*ledger.Ledger
	away bool
}

func (b *brittle) Record(ctx context.Context, cursor *ledger.Cursor, observations ...ledger.Observation) ([]ledger.Receipt, error) {
	if b.away && len(observations) > 0 {
		return nil, errors.New("away")
	}
	return b.Ledger.Record(ctx, cursor, observations...)
}

// The cursor does not move over events that were read and not recorded.
func TestFailedRecordKeepsCursor(t *testing.T) {
	var l *brittle
	r := newReadRig(t, func(c *Config) {
		l = &brittle{Ledger: c.Ledger.(*ledger.Ledger)}
		c.Ledger = l
	})
	intent := r.processor.Pay(testLink, 4200, false)
	before, _, err := r.db.Cursor(t.Context(), "shop", testAccount)
	require.NoError(t, err)
	l.away = true
	require.Error(t, r.try(t))
	after, _, err := r.db.Cursor(t.Context(), "shop", testAccount)
	require.NoError(t, err)
	require.Equal(t, before, after)
	l.away = false
	require.NoError(t, r.try(t))
	require.Contains(t, outcomes(t, r.db), intent)
}

// A test payment is no money, whatever the list of it says.
func TestCheckoutOfOtherModeIsIgnored(t *testing.T) {
	o := newRig(t, nil).Observer
	for live, test := range map[string]bool{"true": true, "false": false} {
		_, err := o.readSession(t.Context(), scope{test: test, now: o.config.Now()}, json.RawMessage(`{"id":"cs_1","created":1795250000,"livemode":`+live+`}`))
		require.ErrorContains(t, err, "the other mode")
	}
}
