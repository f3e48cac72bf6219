package x402

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

func extensionsOf(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

const (
	saysListed     = `{"bazaar":{"status":"success"}}`
	saysProcessing = `{"bazaar":{"status":"processing"},"other":7}`
	saysRejected   = `{"bazaar":{"status":"rejected","rejectedReason":"info failed schema validation"}}`
)

func TestWhatAFacilitatorSaysOfTheListingIsReadAsTheBazaarHasIt(t *testing.T) {
	f, err := NewFacilitator(FacilitatorConfig{URL: "https://facilitator.example/" + urlKey})
	require.NoError(t, err)
	rejected := func(reason string) Listing { return Listing{"rejected", reason} }
	awkward := `{"bazaar":{"status":"rejected","rejectedReason":"??>>~~"}}`
	for value, want := range map[string]Listing{
		extensionsOf(saysListed): {Status: "success"}, extensionsOf(saysProcessing): {Status: "processing"},
		extensionsOf(saysRejected):                                                                           rejected("info failed schema validation"),
		base64.RawURLEncoding.EncodeToString([]byte(awkward)):                                                rejected("??>>~~"),
		" " + base64.URLEncoding.EncodeToString([]byte(awkward)):                                             rejected("??>>~~"),
		extensionsOf(`{"bazaar":{"status":"success","rejectedReason":"x"}}`):                                 {Status: "success"},
		extensionsOf(`{"bazaar":{"status":"rejected"}}`):                                                     rejected(""),
		extensionsOf(`{"bazaar":{"status":"rejected","rejectedReason":"a\u001b[31m\u202e \"b\""}}`):          rejected("a[31m 'b'"),
		extensionsOf(`{"bazaar":{"status":"rejected","rejectedReason":"` + urlKey + `"}}`):                   rejected(""),
		extensionsOf(`{"bazaar":{"status":"rejected","rejectedReason":"` + strings.Repeat("x", 500) + `"}}`): rejected(strings.Repeat("x", maxMessage-1) + "…"),
		"": {}, "!": {}, saysListed: {}, extensionsOf(`{`): {}, extensionsOf(`[]`): {}, extensionsOf(`null`): {}, extensionsOf(`{"bazaar":[]}`): {},
		extensionsOf(`{"bazaar":{"status":"listed"}}`): {}, extensionsOf(`{"bazaar":{"status":1}}`): {}, extensionsOf(`{"bazaar":{"status":""}}`): {},
		extensionsOf(`{"bazaar":{"status":"rejected","rejectedReason":{}}}`):                             {},
		extensionsOf(`{"bazaar":{"status":"success"},"x":"` + strings.Repeat("x", maxExtensions) + `"}`): {},
	} {
		require.Equal(t, want, f.listing(http.Header{"Extension-Responses": {value}}), value)
	}
}

func (s *shop) listed() Listing { return s.Facilitators()[0].Listing }

func TestTheListingIsToldOnceForEachChange(t *testing.T) {
	withShop(t, "", func(t *testing.T, s *shop, f *payoffertest.Facilitator) {
		require.Equal(t, Listing{}, s.listed())
		buyer := 0
		pay := func(verify, settle string, want Listing) {
			t.Helper()
			f.Script(payoffertest.CallVerify, payoffertest.FacilitatorReply{Extensions: verify})
			f.Script(payoffertest.CallSettle, payoffertest.FacilitatorReply{Extensions: settle})
			buyer++
			require.Equal(t, Settled, s.pay(newBuyer(buyer).v2(t)).Status)
			require.Equal(t, want, s.listed())
		}
		lines := func() int { return strings.Count(s.logs.String(), "Bazaar listing") }

		pay(extensionsOf(saysProcessing), "", Listing{Status: "processing"})
		require.Equal(t, 1, lines())
		for range 3 { // what is said of the settlement stands over what was said before
			pay(extensionsOf(saysProcessing), extensionsOf(saysListed), Listing{Status: "success"})
		}
		require.Equal(t, 2, lines())
		pay("", "", Listing{Status: "success"})
		pay("garbage", "garbage", Listing{Status: "success"})
		require.Equal(t, 2, lines(), "who says nothing has taken nothing back")
		pay("", extensionsOf(saysRejected), Listing{"rejected", "info failed schema validation"})
		require.Equal(t, 3, lines())
		require.Contains(t, s.logs.String(), `level=WARN msg="facilitator reported its Bazaar listing" facilitator=one.localhost status=rejected reason="info failed schema validation"`)
	})
}
