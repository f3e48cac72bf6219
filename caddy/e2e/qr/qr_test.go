// Package qr reads the QR images back with an independent decoder.
package qr

import (
	"image/png"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/showcase"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
)

// TestEveryQRCodeReadsBackAsItsURI follows <rail>.png of every rail to its
// image and reads it with an independent decoder.
func TestEveryQRCodeReadsBackAsItsURI(t *testing.T) {
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
	img, err := png.Decode(w.Body)
	require.NoError(t, err)
	bitmap, err := gozxing.NewBinaryBitmapFromImage(img)
	require.NoError(t, err)
	result, err := qrcode.NewQRCodeReader().Decode(bitmap, nil)
	require.NoError(t, err)
	return result.GetText()
}
