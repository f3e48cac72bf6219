package announce

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// What an announcement calls counted is what the report counts at that moment.
func TestTestMoneyIsAnnouncedAsCountedUntilThereIsRealMoney(t *testing.T) {
	for network, want := range map[string][]string{
		"base-sepolia": {
			"payment_confirmed usdc:eip155:84532:0xaa:0:1 confirmed refunded=0 counted=true",
			"payment_confirmed card:pi_1:1 confirmed refunded=0 counted=true",
			"payment_confirmed usdc:eip155:84532:0xbb:0:1 confirmed refunded=0 counted=false",
		},
		"base": {
			"payment_confirmed usdc:eip155:84532:0xaa:0:1 confirmed refunded=0 counted=false",
			"payment_confirmed card:pi_1:1 confirmed refunded=0 counted=true",
			"payment_confirmed usdc:eip155:84532:0xbb:0:1 confirmed refunded=0 counted=false",
		},
	} {
		d, receiver := newFixture(t), payoffertest.NewReceiver(t)
		chain, err := offer.LookupNetwork(network)
		require.NoError(t, err)
		a := d.configured(Config{
			Offer: offer.Offer{Rails: []offer.Rail{&offer.USDC{Network: chain}}}, Endpoints: []Endpoint{Webhook{URL: receiver.URL(), Secrets: []string{testSecret}}}, Transport: receiver.Transport(),
		})
		for _, s := range []ledger.Observation{
			usdcObservation("0xaa", ledger.StatusConfirmed), cardObservation("pi_1", ledger.StatusConfirmed), usdcObservation("0xbb", ledger.StatusConfirmed),
		} {
			d.record(s)
			a.rounds(t.Context())
		}
		require.Equal(t, want, lines(t, receiver))
	}
}
