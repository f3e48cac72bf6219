package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// A link that is sealed before the key is loaded would never open, so no pass is made then.
func TestNoPassIsMadeBeforeTheKeyIsLoaded(t *testing.T) {
	o := newFixture(t)
	o.Offer.Gates = []offer.Gate{{Start: "https://example.org/members/", Access: time.Hour}}
	var key []byte
	o.Keeper = &gate.Keeper{Offer: o.Offer, Ledger: o.book, Key: func() []byte { return key }, Now: o.Now}
	requireRefusal(t, errorOf(o.ChangePass(t.Context(), PassChange{Seconds: 3600})), Unavailable, "not available now")
	all := must(o.Passes(t.Context()))(t)
	require.Empty(t, all.Passes)

	key = []byte(strings.Repeat("k", 32))
	made := must(o.ChangePass(t.Context(), PassChange{Seconds: 3600, Note: "Press"}))(t)
	_, _, err := o.Keeper.Enter(t.Context(), made.URL[strings.Index(made.URL, "=")+1:])
	require.NoError(t, err)
}

func TestARevokedPassKeepsItsFirstTimeAndNoNote(t *testing.T) {
	o := newFixture(t)
	o.Offer.Gates = []offer.Gate{{Start: "https://example.org/members/", Access: time.Hour}}
	o.Keeper = &gate.Keeper{Offer: o.Offer, Ledger: o.book, Key: func() []byte { return []byte(strings.Repeat("k", 32)) }, Now: o.Now}
	made := must(o.ChangePass(t.Context(), PassChange{Seconds: 3600, Note: "Press"}))(t)
	first := must(o.ChangePass(t.Context(), PassChange{Revoke: made.ID}))(t)
	require.Empty(t, first.Note)
	o.unix += 60
	again := must(o.ChangePass(t.Context(), PassChange{Revoke: made.ID}))(t)
	require.Equal(t, first, again)
}
