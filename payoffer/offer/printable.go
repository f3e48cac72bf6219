package offer

import (
	"fmt"
	"unicode"
)

// CheckPrintable refuses control characters, line breaks and invisible characters, which
// could break out of a header or a line of a document.
func CheckPrintable(text string) error {
	for _, r := range text {
		if !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) { // Zs: a no-break space is printable text
			return fmt.Errorf("this text contains a control character, a line break or an invisible character (%U); remove it", r)
		}
	}
	return nil
}
