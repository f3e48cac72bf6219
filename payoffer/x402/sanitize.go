package x402

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxMessage bounds a facilitator's message that is passed on, in characters.
const maxMessage = 120

const reasonUnspecified = "unspecified"

var reasonForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// sanitize makes a facilitator's reason and message safe to pass on to a client. Some facilitators
// write the message where the code belongs. message may become empty.
func (f *Facilitator) sanitize(reason, message string) (code, text string) {
	code = reason
	if !reasonForm.MatchString(reason) {
		code = reasonUnspecified
		if message == "" {
			message = reason
		}
	}
	if f.holdsSecret(code) {
		code = reasonUnspecified
	}
	if text = singleLine(message); f.holdsSecret(message) || f.holdsSecret(text) {
		text = ""
	}
	return code, text
}

// singleLine returns the last line of the first paragraph, with printable characters only, at most
// maxMessage of them. The reference facilitator passes on errors of viem: that line is the
// contract's own message, and all that was sent follows below a blank line.
func singleLine(text string) string {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	text, _, _ = strings.Cut(text, "\n\n")
	text = text[strings.LastIndexByte(text, '\n')+1:]
	text = strings.Join(strings.Fields(strings.Map(printable, text)), " ")
	if utf8.RuneCountInString(text) > maxMessage {
		text = string([]rune(text)[:maxMessage-1]) + "…"
	}
	return text
}

// printable maps spaces to one kind, quotation marks to ' (so that a text cannot end its quotation),
// and characters that are not printable to -1.
func printable(r rune) rune {
	switch {
	case unicode.IsSpace(r):
		return ' '
	case r == utf8.RuneError || !unicode.IsPrint(r):
		return -1
	case unicode.Is(unicode.Quotation_Mark, r):
		return '\''
	}
	return r
}

// quoteFacilitator is a sentence that quotes a message, with a space before it; empty for none.
func quoteFacilitator(text string) string {
	if text == "" {
		return ""
	}
	return ` The facilitator says: "` + text + `".`
}

// plainWord matches a part of an address that is not a key.
var plainWord = regexp.MustCompile(`^([a-z]{0,15}|.{0,5})$`)

// secretsOf are the parts of a facilitator's address and credentials that its texts must not repeat.
func secretsOf(u *url.URL, credentials ...string) []string {
	parts := append(strings.Split(u.Path, "/"), credentials...)
	for _, values := range u.Query() {
		parts = append(parts, values...)
	}
	return slices.DeleteFunc(parts, plainWord.MatchString)
}

func (f *Facilitator) holdsSecret(text string) bool {
	return slices.ContainsFunc(f.secrets, func(secret string) bool { return strings.Contains(text, secret) })
}
