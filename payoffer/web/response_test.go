package web

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func TestAStoredDocumentIsNotSentAgain(t *testing.T) {
	s := newWorld(t).server(t)
	etag := send(t, s, "GET", "/v1/invoice", "").Header.Get("ETag")
	require.Regexp(t, `^"[A-Za-z0-9_-]{22}"$`, etag)
	for _, held := range []string{etag, `"other", ` + etag, "W/" + etag, "*"} {
		res := send(t, s, "GET", "/v1/invoice", "", "If-None-Match", held)
		require.Equal(t, 304, res.StatusCode, held)
		require.Empty(t, read(t, res))
		require.Equal(t, etag, res.Header.Get("ETag"))
		require.Equal(t, []string{"Accept, Accept-Encoding"}, res.Header.Values("Vary"))
		require.Equal(t, "*", res.Header.Get("Access-Control-Allow-Origin"))
		require.Empty(t, res.Header.Get("Content-Type"))
	}
	for _, held := range []string{`"other"`, etag[:5], ""} {
		require.Equal(t, 200, send(t, s, "GET", "/v1/invoice", "", "If-None-Match", held).StatusCode, held)
	}
}

func TestOnlyWhatLastsIsStored(t *testing.T) {
	s := newWorld(t).server(t)
	for target, want := range map[string]string{
		"/openapi.json": "public, max-age=300", "/.well-known/host-meta.json": "public, max-age=300",
		"/v1/sponsor": "no-cache", "/.well-known/host-meta": "no-cache", "/v1/pay/transfer": "no-cache",
		"/v1/invoice": "no-cache", "/v1/pay/btc.uri": "no-cache",
		"/pay": "no-store", "/v1/offer": "no-store", "/v1/pay/btc.png": "no-store", "/v1/received": "no-store",
		"/.well-known/webfinger": "no-store",
	} {
		res := send(t, s, "GET", target, "")
		require.Equal(t, want, res.Header.Get("Cache-Control"), target)
		kind := regexp.MustCompile(`^(W/)?"|^`).FindString(res.Header.Get("ETag"))
		switch {
		case want == "no-store":
			require.Empty(t, res.Header.Get("ETag"), target)
		default:
			require.Equal(t, `"`, kind, target)
		}
	}
}

// A cache that reads Vary wrongly must not serve a page to software: what Accept chooses is
// revalidated or not stored. nginx before 1.23 uses only the last line of Vary.
func TestVaryIsOneLineAndWhatAcceptChoosesIsRevalidated(t *testing.T) {
	s, revalidated := newWorld(t).server(t), 0
	for _, target := range targets(s) {
		for _, accept := range accepts {
			h := getPage(s, target, accept, "de").Header()
			require.LessOrEqual(t, len(h.Values("Vary")), 1, target)
			if !slices.Contains(strings.Split(h.Get("Vary"), ", "), "Accept") {
				continue
			}
			if h.Get("Cache-Control") == "no-store" {
				continue
			}
			revalidated++
			require.Equal(t, "no-cache", h.Get("Cache-Control"), target)
			require.NotEmpty(t, h.Get("Etag"), target)
		}
	}
	require.Greater(t, revalidated, 10)
}

func TestANewRateReplacesWhatFollowsFromIt(t *testing.T) {
	w := newWorld(t)
	s := w.server(t)
	before := send(t, s, "GET", "/v1/pay/btc.uri", "")
	require.Contains(t, read(t, before), "amount=0.00045678&")
	w.live.Satoshis = 50_000
	s.Refresh()
	after := send(t, s, "GET", "/v1/pay/btc.uri", "", "If-None-Match", before.Header.Get("ETag"))
	require.Equal(t, 200, after.StatusCode)
	require.Contains(t, read(t, after), "amount=0.0005&")
	require.Contains(t, read(t, send(t, s, "GET", "/v1/invoice", "")), `"50000"`)
	require.Contains(t, read(t, send(t, s, "GET", "/v1/pay", "", "Accept", browser)), "0.0005 BTC")
}

func TestRenewMovesTheExpiryOfSecurityTxt(t *testing.T) {
	s := newWorld(t).server(t)
	before := read(t, send(t, s, "GET", "/.well-known/security.txt", ""))
	s.Renew(at.AddDate(0, 6, 0))
	require.NotEqual(t, before, read(t, send(t, s, "GET", "/.well-known/security.txt", "")))
}

func TestNewRefusesWhatItCannotServe(t *testing.T) {
	_, err := New(Config{})
	require.Error(t, err)

	w := newWorld(t)
	long := make([]byte, 3000)
	for i := range long {
		long[i] = 'a'
	}
	shop, err := offer.NewStorefront("shop", "https://shop.example/"+string(long), 42_00)
	require.NoError(t, err)
	w.offer = must(offer.New(terms(), w.offer.Card, shop))(t)
	require.ErrorContains(t, CheckImages(w.offer), `rail "shop"`)
}

// Other handlers of a site add to headers and edit values in place. No other response changes.
func TestEditedHeadersBelongToOneResponse(t *testing.T) {
	s := newWorld(t).server(t)
	want := getPage(s, "/v1/pay", browser, "de").Header()
	edited := getPage(s, "/v1/pay", browser, "de").Header()
	require.Equal(t, want, edited)
	for name := range edited {
		edited[name][0] += " edited"
		edited[name] = append(edited[name], "added")
	}
	for name, values := range want {
		expected := append([]string{values[0] + " edited"}, values[1:]...)
		require.Equal(t, append(expected, "added"), edited[name])
	}
	require.Equal(t, want, getPage(s, "/v1/pay", browser, "de").Header())
}
