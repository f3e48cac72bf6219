package command

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func TestCommandQRPrintsARailsURI(t *testing.T) {
	card, err := offer.NewCard("https://checkout.example/pay", nil, 4200)
	require.NoError(t, err)
	bitcoin, err := offer.NewBitcoin("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "Example", 4200)
	require.NoError(t, err)
	o, err := offer.New(offer.Terms{ID: "one", BaseURL: "http://localhost:8402", Amount: 4200}, card, bitcoin)
	require.NoError(t, err)
	offers := []*offer.Offer{o}

	var out bytes.Buffer
	require.NoError(t, printQR(&out, offers, "card"))
	require.Contains(t, out.String(), "https://checkout.example/pay\n")
	require.Contains(t, out.String(), "█")
	require.ErrorContains(t, printQR(&out, offers, "btc"), "http://localhost:8402/v1/pay/btc.uri")
	require.ErrorContains(t, printQR(&out, offers, "pack"), "there are: card, btc")
}

func TestCommandSiteWritesThePage(t *testing.T) {
	folder := t.TempDir()
	_, err := execute(t, siteCommand(), folder)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(folder, "offer", "index.html"))
}
