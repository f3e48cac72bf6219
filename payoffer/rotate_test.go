package payoffer

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// offered are the signed offers of a running instance's quote.
func (o *operated) offered() []string {
	o.t.Helper()
	return x402.FindSigned([]byte(o.get(o.service + "/v1/quote").body))
}

func TestCommandRotateKeyKeepsWhatWasSignedVerifiable(t *testing.T) {
	o := newOperated(t, smallest)
	before := o.offered()
	require.Len(t, before, 1)
	former := before[0]
	must(payOffer(t, "verify", former))(t)

	out := must(o.payOffer("rotate-key"))(t)
	require.Regexp(t, `^did:web:127\.0\.0\.1%3A\d+#[\w-]{43} signs from 20.*Z; former keys stay published\n$`, out)
	require.Len(t, o.keys(), 2)
	must(payOffer(t, "verify", former))(t)

	out = must(o.payOffer("rotate-key", "--revoke"))(t)
	require.Contains(t, out, "all former keys are withdrawn")
	require.Len(t, o.keys(), 1)
	require.NotEqual(t, before, o.offered(), "the quote is signed with the new key at once")
	must(payOffer(t, "verify", o.offered()[0]))(t)
	require.ErrorContains(t, errorOf(payOffer(t, "verify", former)), "have been revoked")
	require.NotContains(t, o.log(), `"private":`)
	require.Equal(t, http.StatusMethodNotAllowed, o.ask(http.MethodGet, operator.PathKeys, "").status)

	require.ErrorContains(t, errorOf(o.payOffer("rotate-key", "--offer", "other")), `no offer has the id "other"`)
}

// keys are those that the DID document lists.
func (i *instance) keys() (ids []string) {
	i.t.Helper()
	var did struct{ VerificationMethod []struct{ ID string } }
	require.NoError(i.t, json.Unmarshal([]byte(i.get(i.service+offer.PathDID).body), &did))
	for _, method := range did.VerificationMethod {
		ids = append(ids, method.ID)
	}
	return ids
}
