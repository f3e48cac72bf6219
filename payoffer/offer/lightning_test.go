package offer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNewLightningReadsAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"alice@wallet.example":         "https://wallet.example/.well-known/lnurlp/alice",
		"Alice+Tip@Pay.Wallet.Example": "https://pay.wallet.example/.well-known/lnurlp/alice+tip",
		"a_b-c.1@wallet.example:8443":  "https://wallet.example:8443/.well-known/lnurlp/a_b-c.1",
		"alice@localhost:3000":         "http://localhost:3000/.well-known/lnurlp/alice",
		"alice@127.0.0.1":              "http://127.0.0.1/.well-known/lnurlp/alice",
		"alice@[::1]:3000":             "http://[::1]:3000/.well-known/lnurlp/alice",
	} {
		rail := must(NewLightning(address, 42_00))(t)
		require.Equal(t, want, rail.ParametersURL())
		require.Equal(t, "lightning/"+rail.Address(), rail.Account())
	}
}

func TestNewLightningRefusesWhatIsNoAddress(t *testing.T) {
	for _, address := range []string{
		"", "alice", "@wallet.example", "alice@", "alice@wallet", "alice@wallet.example/x", "alice@wallet.example?x", "alice@bob@wallet.example",
		"alice@wallet example", "alice@wallet.example:0", "al ice@wallet.example", "al/ice@wallet.example", "álice@wallet.example",
		"lightning:alice@wallet.example", "lnurl1dp68gurn8ghj7um9dej8xct5wvhxcmmv9akx", "LNBC420u1pvjluez", "https://wallet.example/alice",
	} {
		require.ErrorContains(t, errorOf(NewLightning(address, 42_00)), "such as alice@wallet.example", address)
	}
}

func TestLightningMethodNeedsRate(t *testing.T) {
	rail := must(NewLightning("alice@wallet.example", 42_00))(t)
	o := &Offer{Terms: Terms{BaseURL: "https://pay.example"}}
	m := rail.Methods(o, Live{})[0]
	require.False(t, m.Available)
	require.NotEmpty(t, m.Reason)
	require.Empty(t, m.Link(), "without a price nobody is asked for one")
	m = rail.Methods(o, Live{Satoshis: 46_667, RateAt: time.Unix(1, 0)})[0]
	require.True(t, m.Available)
	require.Equal(t, "lightning:alice@wallet.example", m.URI)
	require.Equal(t, "46667", m.AmountAtomic)
	require.Equal(t, "https://pay.example/v1/pay/lightning", m.InvoiceURL)
}
