package e2e

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

var (
	absoluteLink = regexp.MustCompile(`http://localhost:[0-9]+[^\s"'<>()\\` + "`" + `\]]*`)
	markupLink   = regexp.MustCompile(`(?:href|src)="(/[^"]*)"`)
)

// TestNoPublishedLinkIsDead reads every document that the OpenAPI document names, and the pages of both hosts, and asks for
// every address of ours in them.
func TestNoPublishedLinkIsDead(t *testing.T) {
	shipped := server.StartShipped(t)
	service, site := shipped.Service, shipped.Site
	require.Eventually(t, func() bool { // the key of the QR codes follows the first answer
		image, _, err := fetch(service + "/v1/pay/card.png")
		return err == nil && image.StatusCode == http.StatusFound
	}, 30*time.Second, 50*time.Millisecond, "the service has started")

	pages := append(documented(t, service), service+"/v1/pay", site+"/offer/")
	links := map[string][]string{}
	for _, page := range pages {
		for _, accept := range []string{"*/*", "text/html"} {
			for _, link := range linksOf(t, page, accept) {
				if !slices.Contains(links[link], page) {
					links[link] = append(links[link], page)
				}
			}
		}
	}
	require.Greater(t, len(links), 30, "the documents hardly name anything: %v", links)
	for link, pages := range links {
		answer, _ := get(t, link)
		if strings.Contains(link, "/btc.") && answer.StatusCode == http.StatusServiceUnavailable {
			continue // there is no rate without a network
		}
		good := answer.StatusCode < 400 || answer.StatusCode == http.StatusPaymentRequired ||
			(answer.StatusCode == http.StatusMethodNotAllowed && answer.Header.Get("Allow") != "")
		require.True(t, good, "%s answers %d and is published in %v", link, answer.StatusCode, pages)
		if _, fragment, found := strings.Cut(link, "#"); found {
			_, page := get(t, link, "text/html")
			require.Contains(t, page, `id="`+fragment+`"`, "%s is published in %v", link, pages)
		}
	}
}

// documented lists the addresses of the operations that the OpenAPI document lets a client read.
func documented(t *testing.T, service string) []string {
	t.Helper()
	_, body := get(t, service+"/openapi.json")
	var api struct {
		Paths map[string]map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal([]byte(body), &api))
	var found []string
	for path, operations := range api.Paths {
		if _, readable := operations["get"]; readable && !strings.Contains(path, "{") && path != "/.well-known/webfinger" {
			found = append(found, service+path)
		}
	}
	require.Greater(t, len(found), 20)
	return append(found, service+"/.well-known/webfinger?resource="+url.QueryEscape("acct:pay@"+strings.TrimPrefix(service, "http://")))
}

// linksOf finds the addresses of ours in a document and in the Link headers of its answer.
func linksOf(t *testing.T, page, accept string) []string {
	t.Helper()
	answer, body := get(t, page, accept)
	at, err := url.Parse(page)
	require.NoError(t, err)
	text := headerLinks(t, at, answer) + "\n" + answer.Header.Get("Location") + "\n" + body
	var found []string
	for _, link := range absoluteLink.FindAllString(text, -1) {
		link = strings.TrimRight(html.UnescapeString(link), ".,;:`*")
		found = append(found, strings.ReplaceAll(link, "{uri}", url.QueryEscape("acct:pay@"+at.Host)))
	}
	return append(found, markupLinks(t, at, body)...)
}

// headerLinks are the addresses in the Link headers of an answer, which may be relative to its own.
func headerLinks(t *testing.T, at *url.URL, answer *http.Response) string {
	t.Helper()
	var found []string
	for _, link := range answer.Header.Values("Link") {
		target, _, whole := strings.Cut(strings.TrimPrefix(link, "<"), ">")
		require.True(t, whole, link)
		resolved, err := at.Parse(target)
		require.NoError(t, err)
		found = append(found, resolved.String())
	}
	return strings.Join(found, "\n")
}

// markupLinks finds the addresses in HTML that are relative to its page.
func markupLinks(t *testing.T, at *url.URL, body string) []string {
	t.Helper()
	var found []string
	for _, match := range markupLink.FindAllStringSubmatch(body, -1) {
		link, err := at.Parse(html.UnescapeString(match[1]))
		require.NoError(t, err)
		found = append(found, link.String())
	}
	return found
}
