package web

import (
	"html"
	"net/http"
)

// redirect is a 302 with a small page for a client that does not follow it
// (RFC 9110 section 15.4.3). It is never stored, for the target may change.
func (s *Server) redirect(target string, headers ...header) *response {
	link := html.EscapeString(target)
	body := `<!doctype html><html lang="en"><title>Redirect</title><p><a href="` + link + `">` + link + "</a></p></html>\n"
	return s.render(http.StatusFound, typeHTML, cacheNever, []byte(body), append(headers, header{"Location", target})...)
}
