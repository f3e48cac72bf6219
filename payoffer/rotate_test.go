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
	_, err := payOffer(t, "verify", former)
	require.NoError(t, err)

	out, err := o.payOffer("rotate-key")
	require.NoError(t, err)
	require.Regexp(t, `^did:web:127\.0\.0\.1%3A\d+#[\w-]{43} signs from 20.*Z; former keys stay published\n$`, out)
	require.Len(t, o.keys(), 2)
	_, err = payOffer(t, "verify", former)
	require.NoError(t, err)

	out, err = o.payOffer("rotate-key", "--revoke")
	require.NoError(t, err)
	require.Contains(t, out, "all former keys are withdrawn")
	require.Len(t, o.keys(), 1)
	require.NotEqual(t, before, o.offered(), "the quote is signed with the new key at once")
	_, err = payOffer(t, "verify", o.offered()[0])
	require.NoError(t, err)
	_, err = payOffer(t, "verify", former)
	require.ErrorContains(t, err, "have been revoked")
	require.NotContains(t, o.log(), `"private":`)
	require.Equal(t, http.StatusMethodNotAllowed, o.ask(http.MethodGet, operator.PathKeys, "").status)

	_, err = o.payOffer("rotate-key", "--offer", "other")
	require.ErrorContains(t, err, `no offer has the id "other"`)
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
