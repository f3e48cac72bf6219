package buyer

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxWords bounds a stranger's text, in characters.
const maxWords = 300

// Plain makes one line of a stranger's text, without control characters and
// characters that change the writing direction.
func Plain(text string) string {
	text = strings.ToValidUTF8(text, "")
	if len(text) > maxWords*utf8.UTFMax {
		text = strings.ToValidUTF8(text[:maxWords*utf8.UTFMax], "")
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r):
			return r
		default:
			return -1
		}
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) > maxWords {
		text = string([]rune(text)[:maxWords-1]) + "…"
	}
	return text
}

// quoted is a stranger's text in quotation marks.
func quoted(text string) string { return strconv.Quote(Plain(text)) }
