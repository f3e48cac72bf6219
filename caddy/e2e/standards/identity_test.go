package standards

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

func TestADIDResolverFindsTheRails(t *testing.T) {
	s := openShop(t, moreRails)
	host := strings.TrimPrefix(s.base, "https://")
	did := "did:web:" + strings.Replace(host, ":", "%3A", 1)
	var resolved struct {
		Metadata struct{ Error, ContentType string }
		Document struct {
			ID      string
			Service []struct{ ID, ServiceEndpoint string }
		}
	}
	require.NoError(t, validate(t, &resolved, s.trust(), "validate-did.mjs", did))
	require.Empty(t, resolved.Metadata.Error)
	require.Equal(t, did, resolved.Document.ID)
	endpoints := map[string]string{}
	for _, service := range resolved.Document.Service {
		endpoints[strings.TrimPrefix(service.ID, did)] = service.ServiceEndpoint
	}
	require.Equal(t, map[string]string{
		"#payment": card, "#rail-card": s.base + "/v1/pay/card.uri", "#rail-usdc": s.base + "/v1/pay/usdc.uri",
		"#rail-usdc-421614": s.base + "/v1/pay/usdc-421614.uri", "#rail-btc": s.base + "/v1/pay/btc.uri",
		"#rail-transfer": s.base + "/v1/pay/transfer.uri", "#rail-tip-jar": s.base + "/v1/pay/tip-jar.uri",
		"#rail-pack": s.base + "/v1/pay/pack.uri",
	}, endpoints)
}

// TestAWebFingerClientFindsTheCheckout asks the shipped server, which speaks plain HTTP as this client does to localhost.
func TestAWebFingerClientFindsTheCheckout(t *testing.T) {
	host := strings.TrimPrefix(server.StartEdited(t, []string{"card " + card}).Service, "http://")
	for account, found := range map[string]bool{"pay@" + host: true, "nobody@" + host: false} {
		var answer struct {
			Links []struct{ Rel, Href string }
			Error string
		}
		require.NoError(t, validate(t, &answer, nil, "validate-webfinger.mjs", account))
		if !found {
			require.Equal(t, "resource not found", answer.Error)
			continue
		}
		require.Empty(t, answer.Error)
		require.Equal(t, "payment", answer.Links[0].Rel)
		require.Equal(t, card, answer.Links[0].Href)
	}
}
