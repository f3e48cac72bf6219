package document

import "strings"

// typeURIList is the media type of a list of URIs; it has no charset.
const typeURIList = "text/uri-list"

// URIList is a text/uri-list document (RFC 2483 section 5): one URI a line,
// each line ended by CR LF.
func URIList(uris ...string) Document {
	var body strings.Builder
	for _, uri := range uris {
		body.WriteString(uri + "\r\n")
	}
	return Document{Type: typeURIList, Body: []byte(body.String())}
}
