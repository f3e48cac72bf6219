package web

import (
	"bytes"
	"image/png"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func TestEveryRailHasOneURI(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	for _, rail := range w.offer.Rails {
		body := read(t, send(t, s, "GET", offer.URIPath(rail.Name()), ""))
		require.Equal(t, rail.Methods(w.offer, w.live)[0].Link()+"\r\n", body)
		require.NotContains(t, body, "#")
	}
}

func TestTheListHoldsEveryURIOfTheInvoice(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	list := read(t, send(t, s, "GET", "/v1/invoice", "", "Accept", "text/uri-list"))
	invoice := readJSON(t, send(t, s, "GET", "/v1/invoice", ""))
	var links []string
	for _, m := range invoice["methods"].([]any) {
		m := m.(map[string]any)
		link, _ := m["url"].(string)
		if link == "" {
			link = m["uri"].(string)
		}
		links = append(links, link)
	}
	require.Equal(t, strings.Join(links, "\r\n")+"\r\n", list)
}

func TestBitcoinWithoutARateQuotesNothing(t *testing.T) {
	w := newWorld(t)
	w.live = offer.Live{}
	s := w.server(t)
	for _, path := range []string{"/v1/pay/btc.uri", "/v1/pay/btc.png"} {
		res := send(t, s, "GET", path, "")
		require.Equal(t, 503, res.StatusCode, path)
		require.Equal(t, "60", res.Header.Get("Retry-After"))
		require.Equal(t, "urn:pay-offer:problem:no-rate", readJSON(t, res)["type"])
	}
	require.NotContains(t, read(t, send(t, s, "GET", "/v1/invoice", "", "Accept", "text/uri-list")), "bitcoin:")
	page := read(t, send(t, s, "GET", "/v1/pay", "", "Accept", browser))
	require.Contains(t, page, "Not available now")
	require.NotContains(t, page, "bitcoin:")
	require.Equal(t, 200, send(t, s, "GET", "/v1/pay/usdc.uri", "").StatusCode)
}

func TestEveryQRRedirectLeadsToItsImage(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	for _, rail := range w.offer.Rails {
		redirect := send(t, s, "GET", offer.PNGPath(rail.Name()), "")
		require.Equal(t, 302, redirect.StatusCode)
		location := redirect.Header.Get("Location")
		name, uri, ok := parseQRPath(qrKey, location)
		require.True(t, ok)
		require.Equal(t, rail.Name(), name)
		require.Equal(t, rail.Methods(w.offer, w.live)[0].Link(), uri)

		res := send(t, s, "GET", location, "")
		require.Equal(t, 200, res.StatusCode)
		require.Equal(t, "image/png", res.Header.Get("Content-Type"))
		require.Equal(t, "public, max-age=31536000, immutable", res.Header.Get("Cache-Control"))
		image, err := png.Decode(bytes.NewReader([]byte(read(t, res))))
		require.NoError(t, err)
		require.GreaterOrEqual(t, image.Bounds().Dx(), 256)
		require.Equal(t, 304, send(t, s, "GET", location, "", "If-None-Match", res.Header.Get("ETag")).StatusCode)
	}
}

func TestAForgedQRAddressDrawsNothing(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	good := qrPath(qrKey, "card", checkout)
	otherKey := bytes.Repeat([]byte{1}, 32)
	for name, path := range map[string]string{
		"another key":         qrPath(otherKey, "card", checkout),
		"another rail":        strings.Replace(good, "/card/", "/usdc/", 1),
		"a rail of nobody":    qrPath(qrKey, "gone", checkout),
		"a changed URI":       strings.Replace(good, "/card/a", "/card/b", 1),
		"a changed MAC":       flip(good, strings.LastIndex(good, ".png")-2),
		"no MAC":              strings.Split(good, ".")[0] + ".png",
		"a MAC cut short":     good[:len(good)-8] + ".png",
		"another ending":      strings.TrimSuffix(good, ".png") + ".svg",
		"padding":             strings.TrimSuffix(good, ".png") + "=.png",
		"a moved separator":   qrPath(qrKey, "card\x00", checkout),
		"nothing":             offer.PathQR + "/",
		"a folder more":       strings.Replace(good, "/card/", "/card/x/", 1),
		"the template itself": pathImage,
	} {
		require.NotEqual(t, good, path, name)
		require.Equal(t, 404, s.qrImage(&http.Request{URL: &url.URL{Path: path}}).status, name)
	}
	require.Empty(t, s.images.images, "what is forged is not kept")
	require.Equal(t, "no-store", send(t, s, "GET", "/v1/qr/x", "").Header.Get("Cache-Control"))
}

// flip changes one character of base64url into another.
func flip(s string, i int) string {
	to := byte('A')
	if s[i] == to {
		to = 'B'
	}
	return s[:i] + string(to) + s[i+1:]
}

func TestBeforeTheStartThereAreNoQRCodes(t *testing.T) {
	w := newWorld(t)
	w.key = nil
	s := w.server(t)
	for _, path := range []string{"/v1/pay/card.png", qrPath(qrKey, "card", checkout)} {
		res := send(t, s, "GET", path, "")
		require.Equal(t, 503, res.StatusCode)
		require.NotEmpty(t, res.Header.Get("Retry-After"))
	}
	require.NotContains(t, read(t, send(t, s, "GET", "/v1/pay", "", "Accept", browser)), "<img")
	w.key = qrKey
	s.Refresh()
	require.Equal(t, 302, send(t, s, "GET", "/v1/pay/card.png", "").StatusCode)
	require.Contains(t, read(t, send(t, s, "GET", "/v1/pay", "", "Accept", browser)), "<img")
}

func TestKeptImagesAreBounded(t *testing.T) {
	c := newImageCache()
	for i := range maxImages + 10 {
		c.get(strings.Repeat("x", i), func() *response { return new(response) })
	}
	require.Len(t, c.images, maxImages)
	require.Len(t, c.order, maxImages)
	kept := c.get(strings.Repeat("x", maxImages), func() *response { t.Fatal("drawn again"); return nil })
	require.NotNil(t, kept)
}

func FuzzQRPath(f *testing.F) {
	f.Add(qrPath(qrKey, "card", checkout))
	f.Add("/v1/qr/card/..png")
	f.Add("/v1/qr/card/aGk.aGk.png")
	f.Fuzz(func(t *testing.T, path string) {
		if rail, uri, ok := parseQRPath(qrKey, path); ok {
			require.Equal(t, path, qrPath(qrKey, rail, uri), "only the address itself is accepted")
		}
	})
}
