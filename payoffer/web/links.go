package web

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Links are the addresses of ours, in their order, that anybody may ask for with GET.
func (s *Server) Links() []string {
	var links []string
	for _, row := range s.table() {
		path := row.path
		if row.method != http.MethodGet || strings.Contains(path, "{") {
			continue
		}
		if path == offer.PathWebFinger {
			path += "?resource=" + url.QueryEscape(s.Offer.Acct())
		}
		links = append(links, s.Offer.URL(path))
	}
	slices.Sort(links)
	return links
}
