package web

import (
	"bytes"
	"image/png"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func TestInvoiceURIList(t *testing.T) {
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

// Every path that shows a rail shows its method of the invoice, with JSON for who
// asks for it.
func TestRailURITermsInJSON(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	found := 0
	for _, m := range readJSON(t, send(t, s, "GET", "/v1/invoice", ""))["methods"].([]any) {
		method := m.(map[string]any)
		if method["uriList"] == nil {
			continue // the rail's second
		}
		path := offer.URIPath(method["rail"].(string))
		require.Equal(t, method["uriList"], w.offer.URL(path))
		terms := send(t, s, "GET", path, "", "Accept", "application/json")
		require.Equal(t, "Accept", terms.Header.Get("Vary"))
		require.Equal(t, "application/json", terms.Header.Get("Content-Type"))
		require.Equal(t, method, readJSON(t, terms), path)
		for _, accept := range []string{"", "*/*", browser, "text/uri-list", "text/uri-list, application/json;q=0.5"} {
			require.Equal(t, "text/uri-list", send(t, s, "GET", path, "", "Accept", accept).Header.Get("Content-Type"), accept)
		}
		found++
	}
	require.Equal(t, len(w.offer.Rails), found)
}

// An amount in bitcoin holds for three quarters of an hour from its rate on.
func TestBitcoinQuoteValidUntil(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	until := w.live.RateAt.Add(45 * time.Minute).UTC()
	terms := readJSON(t, send(t, s, "GET", "/v1/pay/btc.uri", "", "Accept", "application/json"))
	require.Equal(t, until.Format(time.RFC3339), terms["validUntil"])
	page := read(t, send(t, s, "GET", "/v1/pay", "", "Accept", browser))
	require.Contains(t, page, "This price holds until "+until.Format("15:04")+" UTC.")

	w.live.RateAt = w.live.RateAt.Add(10 * time.Minute)
	s.Refresh()
	for _, m := range readJSON(t, send(t, s, "GET", "/v1/invoice", ""))["methods"].([]any) {
		if m := m.(map[string]any); m["rail"] == "btc" {
			require.Equal(t, until.Add(10*time.Minute).Format(time.RFC3339), m["validUntil"], "the same amount, later")
		} else {
			require.NotContains(t, m, "validUntil", "what does not change holds")
		}
	}
}

func TestUnavailableBitcoinIsNotQuoted(t *testing.T) {
	for reason, live := range map[string]offer.Live{
		"there is no current exchange rate":    {},
		"the amount is 42 satoshis":            {Satoshis: 42, RateAt: at},
		"more than all bitcoin that can exist": {RateAt: at},
	} {
		w := newWorld(t)
		w.live = live
		s := w.server(t)
		for _, accept := range []string{"*/*", "application/json", browser} {
			for _, path := range []string{"/v1/pay/btc.uri", "/v1/pay/btc.png"} {
				res := send(t, s, "GET", path, "", "Accept", accept)
				require.Equal(t, 503, res.StatusCode, path)
				require.Equal(t, "60", res.Header.Get("Retry-After"))
				if accept == browser {
					require.Contains(t, strings.ToLower(read(t, res)), strings.ToLower(reason))
					continue
				}
				problem := readJSON(t, res)
				require.Equal(t, "urn:pay-offer:problem:no-rate", problem["type"])
				require.Contains(t, strings.ToLower(problem["detail"].(string)), strings.ToLower(reason))
			}
		}
		require.NotContains(t, read(t, send(t, s, "GET", "/v1/invoice", "", "Accept", "text/uri-list")), "bitcoin:")
		for path, accept := range map[string]string{"/v1/pay": browser, "/v1/invoice": "*/*"} {
			shown := read(t, send(t, s, "GET", path, "", "Accept", accept))
			require.Contains(t, shown, reason)
			require.NotContains(t, shown, "bitcoin:")
			require.NotRegexp(t, `"validUntil"|data-until=`, shown)
		}
		require.Equal(t, 200, send(t, s, "GET", "/v1/pay/usdc.uri", "").StatusCode)
	}
}

func TestQRRedirectLeadsToImage(t *testing.T) {
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
		image := must(png.Decode(bytes.NewReader([]byte(read(t, res)))))(t)
		require.GreaterOrEqual(t, image.Bounds().Dx(), 256)
		require.Equal(t, 304, send(t, s, "GET", location, "", "If-None-Match", res.Header.Get("ETag")).StatusCode)
	}
}

func TestForgedQRPathDrawsNothing(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	good := qrPath(qrKey, "card", checkout)
	require.Equal(t, 200, send(t, s, "GET", good, "").StatusCode)
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
	require.Len(t, s.images.values, 1, "what is forged is not kept")
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

func TestQRCodesNeedLoadedKey(t *testing.T) {
	w := newWorld(t)
	w.key = nil
	s := w.server(t)
	for _, path := range []string{"/v1/pay/card.png", qrPath(qrKey, "card", checkout)} {
		res := send(t, s, "GET", path, "")
		require.Equal(t, 503, res.StatusCode)
		require.NotEmpty(t, res.Header.Get("Retry-After"))
	}
	pay := read(t, send(t, s, "GET", "/v1/pay", "", "Accept", browser))
	require.NotContains(t, pay, "<img")
	scanned := 0
	for _, rail := range w.offer.Rails {
		if rail.Methods(w.offer, w.live)[0].URI != "" {
			scanned++
		}
	}
	require.Equal(t, scanned, strings.Count(pay, `<div class="by-hand">`), "all else is there")
	require.Contains(t, pay, `<div class="wallet"`)
	w.key = qrKey
	s.Refresh()
	require.Equal(t, 302, send(t, s, "GET", "/v1/pay/card.png", "").StatusCode)
	require.Contains(t, read(t, send(t, s, "GET", "/v1/pay", "", "Accept", browser)), "<img")
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
