package web

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Keys are known after the start, and change while the configuration stays.
func TestDIDDocumentFollowsTheKeys(t *testing.T) {
	w := newWorld(t)
	var keys []document.VerificationKey
	config := w.config()
	config.Keys = func() []document.VerificationKey { return keys }
	s := must(New(config))(t)
	before := send(t, s, http.MethodGet, offer.PathDID, "")
	require.Nil(t, readJSON(t, before)["verificationMethod"])

	keys = []document.VerificationKey{{ID: "one", Public: make([]byte, 32)}}
	s.Refresh()
	for _, path := range []string{offer.PathDID, offer.PathDIDRoot} {
		after := send(t, s, http.MethodGet, path, "")
		require.Equal(t, "public, max-age=300", after.Header.Get("Cache-Control"), "the time that a rotation waits for")
		require.NotEqual(t, before.Header.Get("Etag"), after.Header.Get("Etag"))
		require.Equal(t, []any{w.offer.DID() + "#one"}, readJSON(t, after)["assertionMethod"])
	}
}
