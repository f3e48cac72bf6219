package buyer

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxWords bounds a stranger's text that is shown, in characters.
const maxWords = 300

// Plain makes one line of a stranger's text: what would steer a terminal or turn
// the direction of what follows is left out.
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

// quoted is a stranger's text within a sentence of ours, so that nobody takes it
// for one of ours.
func quoted(text string) string { return strconv.Quote(Plain(text)) }
