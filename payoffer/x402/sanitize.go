package x402

import (
	"cmp"
	"fmt"
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
	if !reasonForm.MatchString(reason) || f.containsSecret(reason) {
		reason, message = reasonUnspecified, cmp.Or(message, reason)
	}
	line := []rune(strings.Join(strings.Fields(strings.Map(printable, message)), " "))
	if f.containsSecret(string(line)) {
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

// sanitizeReply sets the reason and the message of a reply, and reports whether it has a reason that is a code.
func (f *Facilitator) sanitizeReply(r *reply) (isCode bool) {
	code := cmp.Or(r.InvalidReason, r.ErrorReason)
	r.reason, r.message = f.sanitize(cmp.Or(code, r.ErrorType, r.Error), cmp.Or(r.InvalidMessage, r.ErrorMessage, r.Message))
	isCode = r.reason == code
	return isCode
}

// explain describes a reply of 4xx to the operator in one line: the call, the status, the code and the text.
func (f *Facilitator) explain(call string, status int, r reply, data []byte) string {
	if r.reason == reasonUnspecified && r.message == "" && !strings.Contains(string(data), `\`) { // an escape could hide a secret
		_, r.message = f.sanitize("", string(data))
	}
	return fmt.Sprintf("%s HTTP %d %s", call, status, r.text())
}

// text is the reason and the message.
func (r reply) text() string { return strings.TrimSuffix(r.reason+textMark+r.message, textMark) }

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

// containsSecret reports whether a text contains a credential, such as the signed token of a request.
func (f *Facilitator) containsSecret(text string) bool {
	return compactJWS.MatchString(text) || slices.ContainsFunc(f.secrets, func(secret string) bool { return strings.Contains(text, secret) })
}
