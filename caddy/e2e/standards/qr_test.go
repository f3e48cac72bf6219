package standards

import (
	"errors"
	"fmt"
	"html"
	"image/png"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/showcase"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
)

// TestQRCodesDecodeToURI follows <rail>.png of every rail to its
// image and reads it with an independent decoder.
func TestQRCodesDecodeToURI(t *testing.T) {
	o := showcase.Offer(t, "https://pay.example.org")
	server := showcase.New(t, o)
	for _, rail := range o.Rails {
		t.Run(rail.Name(), func(t *testing.T) {
			redirect := get(t, server, offer.PNGPath(rail.Name()))
			require.Equal(t, http.StatusFound, redirect.Code)
			image := get(t, server, redirect.Header().Get("Location"))
			require.Equal(t, http.StatusOK, image.Code)
			require.Equal(t, rail.Methods(o, showcase.Live)[0].Link(), decodeQR(t, image))
		})
	}
}

func get(t *testing.T, server *web.Server, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	require.True(t, server.Serve(w, httptest.NewRequest(http.MethodGet, path, nil)))
	return w
}

// page is a page for people.
func page(t *testing.T, server *web.Server, path string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept", "text/html")
	w := httptest.NewRecorder()
	require.True(t, server.Serve(w, r))
	return w.Body.String()
}

func decodeQR(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	img := lab.Must(png.Decode(w.Body))(t)
	bitmap := lab.Must(gozxing.NewBinaryBitmapFromImage(img))(t)
	result := lab.Must(qrcode.NewQRCodeReader().Decode(bitmap, nil))(t)
	return result.GetText()
}

// epc is what an app of a bank makes of a code: the data elements of EPC069-12, version 2.1, section 3.
type epc struct {
	bic, name, iban, amount, reference string
}

// The forms of its elements, as the standard gives them.
var (
	epcBIC    = regexp.MustCompile(`^([A-Z0-9]{4}[A-Z]{2}[A-Z0-9]{2}([A-Z0-9]{3})?)?$`)
	epcIBAN   = regexp.MustCompile(`^[A-Z]{2}[0-9]{2}[A-Z0-9]{1,30}$`)
	epcAmount = regexp.MustCompile(`^EUR([0-9]{1,9}(\.[0-9]{1,2})?)$`)
)

// readEPC reads a code's text strictly by the standard.
func readEPC(text string) (read epc, err error) {
	lines := strings.Split(text, "\n")
	if len(text) > 331 || !utf8.ValidString(text) || strings.Contains(text, "\r") {
		return read, errors.New("not 331 bytes of UTF-8 with line feeds")
	}
	if len(lines) < 8 || len(lines) > 12 || lines[len(lines)-1] == "" {
		return read, fmt.Errorf("%d lines: it has 8 to 12, and ends with the last that is filled in", len(lines))
	}
	lines = append(lines, make([]string, 12-len(lines))...)
	if head := strings.Join(lines[:4], " "); head != "BCD 002 1 SCT" {
		return read, fmt.Errorf("the head %q", head)
	}
	read.bic, read.name, read.iban, read.reference = lines[4], lines[5], lines[6], lines[10]
	digits := ""
	for _, c := range read.iban[min(4, len(read.iban)):] + read.iban[:min(4, len(read.iban))] {
		n, _ := strconv.ParseInt(string(c), 36, 0)
		digits += strconv.FormatInt(n, 10)
	}
	rest := 0
	for _, c := range digits {
		rest = (rest*10 + int(c-'0')) % 97
	}
	amount := epcAmount.FindStringSubmatch(lines[7])
	switch {
	case !epcBIC.MatchString(read.bic):
		return read, fmt.Errorf("AT-23 %q", read.bic)
	case read.name == "" || utf8.RuneCountInString(read.name) > 70:
		return read, fmt.Errorf("AT-21 %q", read.name)
	case !epcIBAN.MatchString(read.iban) || rest != 1:
		return read, fmt.Errorf("AT-20 %q", read.iban)
	case lines[7] != "" && (amount == nil || amount[1] < "0.01"):
		return read, fmt.Errorf("AT-04 %q", lines[7])
	case lines[8] != "" || lines[9] != "" || lines[11] != "":
		return read, errors.New("a purpose, a structured reference or a note that nobody gave")
	case utf8.RuneCountInString(read.reference) > 140:
		return read, fmt.Errorf("AT-05 %q", read.reference)
	}
	if amount != nil {
		read.amount = amount[1]
	}
	return read, nil
}

// TestBankQRCodesDecodeToTransfer reads the images on the pages with an independent decoder, and what they
// hold by the standard.
func TestBankQRCodesDecodeToTransfer(t *testing.T) {
	for name, c := range map[string]struct {
		bank offer.Bank
		want epc
	}{
		"an IBAN alone": {
			offer.Bank{AccountHolderName: "Example Org", IBAN: "DE75512108001245126199"},
			epc{name: "Example Org", iban: "DE75512108001245126199", reference: "Example 42"},
		},
		"with a price": {
			offer.Bank{AccountHolderName: "Exämple & Söhne – Ουρανός", IBAN: "FR1420041010050500013M02606", BIC: "PSSTFRPPMON", AmountEUR: 39_00},
			epc{bic: "PSSTFRPPMON", name: "Exämple & Söhne – Ουρανός", iban: "FR1420041010050500013M02606", amount: "39.00", reference: "Example 42"},
		},
		"outside the EEA, beside the United States": {
			offer.Bank{AccountHolderName: strings.Repeat("ü", 70), IBAN: "CH9300762011623852957", BIC: "POFICHBE", AmountEUR: 1, RoutingNumber: "021000021", AccountNumber: "1234"},
			epc{bic: "POFICHBE", name: strings.Repeat("ü", 70), iban: "CH9300762011623852957", amount: "0.01", reference: "Example 42"},
		},
		"as large as it may be": {
			offer.Bank{AccountHolderName: strings.Repeat("ü", 70), IBAN: "MT84MALT011000012345MTLCAST001S", BIC: "MMEBMTMT001", AmountEUR: 999_999_99},
			epc{bic: "MMEBMTMT001", name: strings.Repeat("ü", 70), iban: "MT84MALT011000012345MTLCAST001S", amount: "999999.99", reference: strings.Repeat("r", 117)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			amount := offer.USD(42_00)
			card, err := offer.NewCard("https://checkout.shop/pay", nil, amount)
			require.NoError(t, err)
			transfer := lab.Must(offer.NewBankTransfer("wire", "pay@example.org", c.want.reference, "Example Org", amount))(t)
			require.NoError(t, transfer.Publish(c.bank))
			o, err := offer.New(offer.Terms{ID: "pay.example.org", BaseURL: "https://pay.example.org", SiteURL: "https://www.example.org", Name: "Example", Account: "pay", Amount: amount}, card, transfer)
			require.NoError(t, err)
			server := showcase.New(t, o)
			for _, path := range []string{offer.PathMethods, offer.PagePath("wire")} {
				source := regexp.MustCompile(`src="(/v1/qr/wire/[^"]*)"`).FindStringSubmatch(page(t, server, path))
				require.NotNil(t, source, path)
				image := get(t, server, html.UnescapeString(source[1]))
				require.Equal(t, http.StatusOK, image.Code)
				picture := lab.Must(png.Decode(image.Body))(t)
				require.LessOrEqual(t, picture.Bounds().Dx(), (69+2*4)*8, "version 13, with the quiet zone")
				bitmap := lab.Must(gozxing.NewBinaryBitmapFromImage(picture))(t)
				scanned := lab.Must(qrcode.NewQRCodeReader().Decode(bitmap, nil))(t)
				require.Equal(t, "M", scanned.GetResultMetadata()[gozxing.ResultMetadataType_ERROR_CORRECTION_LEVEL])
				read := lab.Must(readEPC(scanned.GetText()))(t)
				require.Equal(t, c.want, read)
			}
			// What stays: the code of the rail's own address is its mail.
			redirect := get(t, server, offer.PNGPath("wire"))
			require.Regexp(t, `^mailto:pay@example\.org\?`, decodeQR(t, get(t, server, redirect.Header().Get("Location"))))
		})
	}
}
