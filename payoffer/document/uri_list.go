package document

import "strings"

const typeURIList = "text/uri-list"

// URIList is a text/uri-list document (RFC 2483 section 5).
func URIList(uris ...string) Document {
	var body strings.Builder
	for _, uri := range uris {
		body.WriteString(uri + "\r\n")
	}
	return Document{Type: typeURIList, Body: []byte(body.String())}
}
