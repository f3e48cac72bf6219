package browser

import (
	"flag"
	"image"
	"image/draw"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/prices"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

var update = flag.Bool("update", false, "take the pictures of the README again")

// height is that of every picture of the README in pixels. The README shows them in one row.
const height = 844

// pictures are those of the README, by their widths in pixels.
var pictures = map[string]int{"pay-phone": 390, "receipt-phone": 390, "received": 780}

// pictureSecret signs the webhooks of the card checkout.
const pictureSecret = "whsec_of_the_card_checkout"

const pictureCaddyfile = `{
	admin ADMIN
	persist_config off
	default_bind 127.0.0.1
}
BASE {
	pay_offer {
		base_url BASE
		id pay.kestrel.example
		name "Kestrel Mail 3"
		operator "Kestrel Mail"
		description "A year of work on the mail server that you run."
		contact pay@kestrel.example
		thanks "Thank you! Your name will be in the release notes."
		refunds "We refund within 30 days: write to us."
		legal "Kestrel Mail Ltd" "1 Harbour Street, Bristol" "VAT GB 123 4567 89"
		card https://buy.stripe.com/your-link {
			payment_link plink_1
			webhook_secret CARD_SECRET
		}
		usdc base YOUR_USDC_ADDRESS {
			facilitator https://facilitator.example
			rpc off
		}
		bitcoin YOUR_BITCOIN_ADDRESS {
			rates mempool
			esplora off
		}
		bank_transfer transfer pay@kestrel.example
		storefront tip-jar https://shop.example/tip
	}
}
`

// TestReadmePicturesHaveSameHeight takes the pictures before that with -update.
func TestReadmePicturesHaveSameHeight(t *testing.T) {
	if *update {
		takePictures(t)
	}
	for name, width := range pictures {
		file := lab.Must(os.Open(picture(t, name)))(t)
		defer file.Close()
		config := lab.Must(png.DecodeConfig(file))(t)
		require.Equal(t, []int{width, height}, []int{config.Width, config.Height}, name)
	}
}

func picture(t *testing.T, name string) string { return lab.Path(t, "payoffer/docs/"+name+".png") }

// takePictures writes pictures of an offer that received three payments.
func takePictures(t *testing.T) {
	base, admin := "http://localhost:"+payoffertest.FreePort(t), "localhost:"+payoffertest.FreePort(t)
	server.Start(t, base, payoffertest.FillIn(strings.NewReplacer("ADMIN", admin, "BASE", base, "CARD_SECRET", pictureSecret).Replace(pictureCaddyfile)), prices.Start(t)...)
	server.Eventually(t, "Bitcoin has a price", func() bool {
		return server.Ask(server.Client, http.MethodGet, base+"/v1/pay/btc.uri", "", nil).Status == http.StatusOK
	})
	server.Eventually(t, "the card payment is counted", func() bool {
		event, header := server.CardPaid("1", 42_00, pictureSecret)
		_, err := server.Do(server.Client, http.MethodPost, base+"/v1/hook/card", event, header)
		return err == nil && server.Confirmed(base, "card") == 1
	})
	record := func(rail, reference, date string) string {
		out, err := server.Command(t, "", "record", "--rail", rail, "--reference", reference, "--amount", "42", "--sure", "--date", date, "--address", admin)
		require.NoError(t, err, out)
		return regexp.MustCompile(`/v1/receipt/\S+`).FindString(out)
	}
	record("tip-jar", "118", "2026-11-12")
	receipt := record("transfer", "INV-2026-117", "2026-11-20")
	require.NotEmpty(t, receipt)
	folder := t.TempDir()
	views := []View{
		{URL: base + "/v1/pay", Screenshot: "pay-phone"}, {URL: base + receipt, Screenshot: "receipt-phone"}, {URL: base + "/v1/received", Screenshot: "received"},
	}
	for i := range views {
		views[i].Width, views[i].Screenshot = pictures[views[i].Screenshot], filepath.Join(folder, views[i].Screenshot+".png")
	}
	Start(t).Looks(t, views...)
	for name, width := range pictures {
		crop(t, filepath.Join(folder, name+".png"), picture(t, name), width)
	}
}

// crop writes the upper part of a picture.
func crop(t *testing.T, from, to string, width int) {
	t.Helper()
	in := lab.Must(os.Open(from))(t)
	defer in.Close()
	whole := lab.Must(png.Decode(in))(t)
	part := image.NewRGBA(image.Rect(0, 0, width, height))
	draw.Draw(part, part.Bounds(), image.NewUniform(whole.At(0, 0)), image.Point{}, draw.Src)
	draw.Draw(part, part.Bounds(), whole, image.Point{}, draw.Over)
	out := lab.Must(os.Create(to))(t)
	require.NoError(t, png.Encode(out, part))
	require.NoError(t, out.Close())
}
