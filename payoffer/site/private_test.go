package site

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

func TestPageLinksToPublicTotalsOnly(t *testing.T) {
	o := makeOffer(t, "Example", "Example Org", "One payment.")
	for _, private := range []bool{false, true} {
		o.PrivateReceived = private
		for _, l := range text.Languages {
			page, _ := render(t, o, l.Tag, "")
			if private {
				require.NotContains(t, page, "/v1/received")
			} else {
				require.Contains(t, page, "/v1/received")
			}
		}
	}
}
