package x402

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// maxMessage bounds a facilitator's message that is passed on, in characters.
const maxMessage = 120

const reasonUnspecified = "unspecified"

var reasonForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// sanitize keeps a facilitator's reason if it is a code, and makes its message one printable line
// without secrets. Some facilitators write the message where the code belongs.
func (f *Facilitator) sanitize(reason, message string) (code, text string) {
	if !reasonForm.MatchString(reason) || f.holdsSecret(reason) {
		reason, message = reasonUnspecified, cmp.Or(message, reason)
	}
	line := []rune(strings.Join(strings.Fields(strings.Map(printable, message)), " "))
	if f.holdsSecret(string(line)) {
		return reason, ""
	}
	if len(line) > maxMessage {
		line = append(line[:maxMessage-1], '…')
	}
	return reason, string(line)
}

// printable maps spaces to one kind, quotation marks to ', and characters that are not printable to -1.
func printable(r rune) rune {
	switch {
	case unicode.IsSpace(r):
		return ' '
	case unicode.Is(unicode.Quotation_Mark, r):
		return '\''
	case !unicode.IsPrint(r):
		return -1
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
