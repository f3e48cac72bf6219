package e2e

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	absoluteLink = regexp.MustCompile(`http://localhost:[0-9]+[^\s"'<>()\\` + "`" + `\]]*`)
	markupLink   = regexp.MustCompile(`(?:href|src)="(/[^"]*)"`)
)

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
