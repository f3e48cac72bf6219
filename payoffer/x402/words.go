package x402

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxWords bounds a facilitator's text that is passed on, in characters.
const maxWords = 120

// reasonUnspecified is the reason of a facilitator that gives no code.
const reasonUnspecified = "unspecified"

// reasonForm is what a reason code looks like.
var reasonForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// words are a facilitator's reasons as they may be passed on to a client, for
// they are foreign text: a code, and a text that may be empty. Some write the
// text where the code belongs.
func (f *Facilitator) words(reason, message string) (code, text string) {
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
	if text = plain(message); f.holdsSecret(message) || f.holdsSecret(text) {
		text = ""
	}
	return code, text
}

// plain makes one line of a text: printable characters and single spaces, at
// most maxWords. Of several lines it is the last one of the first paragraph: the
// reference facilitator passes on what viem says, which names the contract's
// function in one line, the contract's own words in the next, and all that was
// sent below a blank one.
func plain(text string) string {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	text, _, _ = strings.Cut(text, "\n\n")
	text = text[strings.LastIndexByte(text, '\n')+1:]
	text = strings.Join(strings.Fields(strings.Map(printable, text)), " ")
	if utf8.RuneCountInString(text) > maxWords {
		text = string([]rune(text)[:maxWords-1]) + "…"
	}
	return text
}

// printable drops a character by returning -1: controls, marks that change the
// direction of what follows, what is not UTF-8. A quotation mark becomes a
// single one, so that no text can end the sentence that quotes it.
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

// says is the sentence that quotes a facilitator's text, with a space before it;
// empty for no text.
func says(text string) string {
	if text == "" {
		return ""
	}
	return ` The facilitator says: "` + text + `".`
}

// plainWord is a part of an address that is no key.
var plainWord = regexp.MustCompile(`^([a-z]{0,15}|.{0,5})$`)

// secretsOf are the parts of a facilitator's address and credentials that it
// might repeat in its texts and nobody else may read.
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
