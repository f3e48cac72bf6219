package diagnose

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

const start = "https://example.org/course/"

// gated adds gates with a site behind them, and a server that makes passes.
func (s *surroundings) gated(starts ...string) (changes *[]operator.PassChange) {
	changes = new([]operator.PassChange)
	s.offer.Offer.Gates = nil
	for _, start := range starts {
		s.offer.Offer.Gates = append(s.offer.Offer.Gates, offer.Gate{Start: start, Access: time.Hour})
	}
	s.Pass = func(ctx context.Context, p operator.PassChange) (operator.Pass, error) {
		*changes = append(*changes, p)
		return operator.Pass{ID: "abc", URL: starts[0] + "?pay_offer=CODE.SEAL"}, ctx.Err()
	}
	s.site(nil)
	return changes
}

// site is a gated site. Each status replaces an answer: of "free" requests, of the "entry" or of a "payer".
func (s *surroundings) site(statuses map[string]int) {
	s.hosts["example.org"] = func(w http.ResponseWriter, r *http.Request) {
		kind, status := "free", http.StatusPaymentRequired
		switch {
		case !strings.HasPrefix(r.URL.Path, "/course"):
			kind, status = "", http.StatusOK
		case r.Header.Get("Cookie") == "pass=1":
			kind, status = "payer", http.StatusOK
		case r.URL.RawQuery == "pay_offer=CODE.SEAL":
			kind, status = "entry", http.StatusSeeOther
		}
		if other, found := statuses[kind]; found {
			status = other
		}
		if status == http.StatusSeeOther {
			w.Header().Set("Set-Cookie", "pass=1; Path=/; Secure; HttpOnly")
		}
		w.WriteHeader(status)
	}
}

// asks counts the requests to addresses with a text.
func (s *surroundings) asks(text string) (n int) {
	for _, asked := range s.asked {
		if strings.Contains(asked, text) {
			n++
		}
	}
	return n
}

func TestGateCheckedWithAndWithoutPass(t *testing.T) {
	s := around(t)
	changes := s.gated(start, "https://example.org/course/second")
	require.Empty(t, s.found())
	require.Equal(t, []operator.PassChange{{Offer: "pay.example.org", Seconds: 60, Note: "check --live"}, {Offer: "pay.example.org", Delete: "abc"}}, *changes)
	require.Equal(t, 6, s.asks("/course"), "each start for free, by the link and by the cookie")
}

func TestGateOpenOrEmptyIssue(t *testing.T) {
	for what, c := range map[string]struct {
		statuses map[string]int
		fix      string
	}{
		start + " answers 200 without a payment, and not 402": {map[string]int{"free": 200}, GateOpen.Fix},
		start + " answers 404 without a payment, and not 402": {map[string]int{"free": 404}, GateOpen.Fix},
		start + " answers 302 without a payment, and not 402": {map[string]int{"free": 302}, GateOpen.Fix},
		start + " answers 404 to a payer":                     {map[string]int{"payer": 404}, GateShut.Fix},
		start + " answers 410 to a payer":                     {map[string]int{"payer": 410}, GateShut.Fix},
		start + " answers 402 to a payer":                     {map[string]int{"entry": 402}, GateShut.Fix},
	} {
		s := around(t)
		changes := s.gated(start)
		s.site(c.statuses)
		issues := Run(t.Context(), s.World, []Offer{s.offer}).Issues
		require.Equal(t, []Issue{{"gate", "pay.example.org", start, what, c.fix}}, issues)
		require.Equal(t, "abc", (*changes)[len(*changes)-1].Delete, "the pass is removed")
		require.Equal(t, c.statuses["free"] == 0, s.asks("example.org/course/") > 1, "a free page gets no link: %s", what)
	}
}

// A site may answer a payer as it likes, also by an error of its own.
func TestGatedSiteErrorsAreNoIssue(t *testing.T) {
	for _, statuses := range []map[string]int{{"payer": 302}, {"payer": 500}, {"payer": 401}, {"free": 401}} {
		s := around(t)
		s.gated(start)
		s.site(statuses)
		require.Empty(t, s.found(), statuses)
	}
}

func TestGateNotCheckedIfSettingsDiffer(t *testing.T) {
	for want, change := range map[string]func(s *surroundings){
		SettingsDiffer.Name + " pay.example.org": func(s *surroundings) { s.server.Settings = "other" },
		NotRunning.Name + " admin API": func(s *surroundings) {
			s.Ask = func(context.Context) ([]operator.Diagnostics, error) { return nil, errors.New("no server answers") }
		},
		LedgerUnwritable.Name + " ledger": func(s *surroundings) { s.server.Ledger.Writable = false },
	} {
		s := around(t)
		changes := s.gated(start)
		change(s)
		require.Equal(t, []string{want}, s.found())
		require.Empty(t, *changes)
	}
}

func TestUnreachableGateIssue(t *testing.T) {
	s := around(t)
	s.gated("https://away.example.org/")
	require.Equal(t, []string{Unreachable.Name + " away.example.org"}, s.found())
}

// A pass that cannot be made is a problem; one that cannot be removed ends by itself.
func TestPassCreationFailureIssue(t *testing.T) {
	for _, fails := range []string{"make", "delete"} {
		s := around(t)
		s.gated(start)
		make := s.Pass
		s.Pass = func(ctx context.Context, p operator.PassChange) (operator.Pass, error) {
			if (p.Delete == "") == (fails == "make") {
				return operator.Pass{}, errors.New("the key is not loaded")
			}
			return make(ctx, p)
		}
		issues := Run(t.Context(), s.World, []Offer{s.offer}).Issues
		if fails == "make" {
			require.Len(t, issues, 1)
			require.Equal(t, "no pass can be made: the key is not loaded", issues[0].What)
		} else {
			require.Empty(t, issues)
		}
	}
}

// The time of the check may be over, and the pass is removed all the same.
func TestPassRemovedAfterCheckTimeout(t *testing.T) {
	s := around(t)
	changes := s.gated(start)
	ctx, cancel := context.WithCancel(t.Context())
	own := s.hosts["example.org"]
	s.hosts["example.org"] = func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.RawQuery, "pay_offer") {
			cancel()
		}
		own(w, r)
	}
	removed := false
	inner := s.Pass
	s.Pass = func(ctx context.Context, p operator.PassChange) (operator.Pass, error) {
		pass, err := inner(ctx, p)
		removed = removed || p.Delete != "" && err == nil
		return pass, err
	}
	Run(ctx, s.World, []Offer{s.offer})
	require.True(t, removed, fmt.Sprint(*changes))
}
