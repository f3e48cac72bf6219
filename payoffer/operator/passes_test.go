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
	_, err := o.ChangePass(t.Context(), PassChange{Seconds: 3600})
	requireRefusal(t, err, Unavailable, "not available now")
	all, err := o.Passes(t.Context())
	require.NoError(t, err)
	require.Empty(t, all.Passes)

	key = []byte(strings.Repeat("k", 32))
	made, err := o.ChangePass(t.Context(), PassChange{Seconds: 3600, Note: "Press"})
	require.NoError(t, err)
	_, _, err = o.Keeper.Enter(t.Context(), made.URL[strings.Index(made.URL, "=")+1:])
	require.NoError(t, err)
}

func TestARevokedPassKeepsItsFirstTimeAndNoNote(t *testing.T) {
	o := newFixture(t)
	o.Offer.Gates = []offer.Gate{{Start: "https://example.org/members/", Access: time.Hour}}
	o.Keeper = &gate.Keeper{Offer: o.Offer, Ledger: o.book, Key: func() []byte { return []byte(strings.Repeat("k", 32)) }, Now: o.Now}
	made, err := o.ChangePass(t.Context(), PassChange{Seconds: 3600, Note: "Press"})
	require.NoError(t, err)
	first, err := o.ChangePass(t.Context(), PassChange{Revoke: made.ID})
	require.NoError(t, err)
	require.Empty(t, first.Note)
	o.unix += 60
	again, err := o.ChangePass(t.Context(), PassChange{Revoke: made.ID})
	require.NoError(t, err)
	require.Equal(t, first, again)
}
