package browser

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/showcase"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
)

// measured is the look of elements of a page.
type measured struct {
	Looks []struct {
		Width, Height, Natural float64
		Background, Font       string
		Radius                 string
	}
	Messages, Foreign []string
}

func (v visit) measure(t *testing.T, url string, selectors ...string) measured {
	t.Helper()
	var found []measured
	v.Do(t, "measures", []any{map[string]any{"url": url, "width": 390, "selectors": selectors}}, &found)
	require.Empty(t, found[0].Messages, url)
	require.Empty(t, found[0].Foreign, url)
	return found[0]
}

// branded serves the pages of an offer beside a seller's own files, and the paths of its receipts.
func branded(t *testing.T, files http.Handler, change func(*offer.Offer)) (address string, receipts map[string]string) {
	t.Helper()
	var pages *web.Server
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !pages.Serve(w, r) {
			files.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(host.Close)
	o := showcase.Offer(t, host.URL)
	change(o)
	pages = showcase.New(t, o)
	return host.URL, showcase.Receipts(t, pages)
}

func (v visit) logosKeepForm(t *testing.T) {
	files := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var width, height int
		name, kind, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/logo-"), ".")
		_, err := fmt.Sscanf(name, "%dx%d", &width, &height)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		if kind == "svg" {
			w.Header().Set("Content-Type", "image/svg+xml")
			fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d"><rect width="100%%" height="100%%"/></svg>`, width, height)
			return
		}
		var file bytes.Buffer
		_ = png.Encode(&file, image.NewGray(image.Rect(0, 0, width, height)))
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write(file.Bytes())
	})
	for _, size := range [][2]int{{100, 100}, {400, 100}, {100, 300}} {
		for _, kind := range []string{"svg", "png"} {
			logo := fmt.Sprintf("/logo-%dx%d.%s", size[0], size[1], kind)
			base, receipts := branded(t, files, func(o *offer.Offer) { o.Logo = o.BaseURL + logo })
			for _, path := range []string{offer.PathMethods, offer.PathThanks, receipts["card-confirmed-signed-USD"]} {
				shown := v.measure(t, base+path, "img.logo").Looks[0]
				ratio := float64(size[0]) / float64(size[1])
				require.InDelta(t, ratio, shown.Width/shown.Height, 0.05*ratio, "%s of %s is squeezed", logo, path)
				require.InDelta(t, 40, max(shown.Height, shown.Width/4), 8, logo)
			}
		}
	}
}

func (v visit) sellerStylesheet(t *testing.T) {
	files := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/css")
		_, _ = w.Write([]byte(":root { --brand: #ff0000; --on-brand: #000000; --font: 'DejaVu Serif'; --radius: 0px; }"))
	})
	base, receipts := branded(t, files, func(o *offer.Offer) { o.Style = o.BaseURL + "/brand.css" })
	for path, button := range map[string]string{
		offer.PathMethods: ".button", offer.PathReceived: ".button", offer.PathThanks + "?session_id=cs_test_showcase": ".button", offer.PathSponsor: ".button",
		receipts["card-confirmed-signed-USD"]: "",
	} {
		shown := v.measure(t, base+path, "body", ".sheet").Looks
		require.Contains(t, shown[0].Font, "DejaVu Serif", path)
		require.Equal(t, "0px", shown[1].Radius, path)
		if button != "" {
			require.Equal(t, "rgb(255, 0, 0)", v.measure(t, base+path, button).Looks[0].Background, path)
		}
	}
}
