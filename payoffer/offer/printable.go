package offer

import (
	"fmt"
	"unicode"
)

// U+200C and U+200D part and join the letters or the pictures on both sides.
const (
	nonJoiner = '\u200c'
	joiner    = '\u200d'
)

// joining are the scripts whose words are spelt with joiners, as in Persian and in the
// languages of India (Unicode, chapters 9, 12 to 14 and 16).
var joining = []*unicode.RangeTable{
	unicode.Arabic, unicode.Syriac, unicode.Mandaic, unicode.Nko, unicode.Adlam, unicode.Mongolian, unicode.Phags_Pa,
	unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada,
	unicode.Malayalam, unicode.Sinhala, unicode.Tibetan, unicode.Myanmar, unicode.Khmer,
}

// CheckPrintable refuses a text with characters that nobody sees, which could break out
// of a header or a line of a document, turn the direction of what follows, or hide words
// that programs read: controls, line and paragraph separators, format characters,
// characters without a width. A joiner may stand where a script or an emoji needs it, and
// one variation selector after what it varies.
func CheckPrintable(text string) error {
	runes := []rune(text)
	var base, before rune // the last character that no mark, selector or joiner is; the one before
	for i, r := range runes {
		seen := unicode.IsGraphic(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
		switch {
		case r == nonJoiner || r == joiner:
			emoji := r == joiner && unicode.Is(unicode.S, base) && i+1 < len(runes) && unicode.Is(unicode.S, runes[i+1])
			seen = emoji || unicode.In(base, joining...)
			base = 0
		case unicode.Is(unicode.Variation_Selector, r):
			seen = base != 0 && !unicode.IsSpace(base) && !unicode.Is(unicode.Variation_Selector, before)
		case !unicode.IsMark(r):
			base = r
		}
		if !seen {
			return fmt.Errorf("this text holds a control character, a line break or another character that is not seen (%U); leave it out", r)
		}
		before = r
	}
	return nil
}
