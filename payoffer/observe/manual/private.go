package manual

import (
	"errors"
	"regexp"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

var (
	mailAddress = regexp.MustCompile(`[^\s@<>]+@[^\s@<>]+\.[^\s@<>]`)
	// groups are the parts in which numbers are written, whatever stands between them.
	groups = regexp.MustCompile(`[0-9A-Z]+`)
)

// CheckPublishable refuses a reference that would publish what belongs to a person:
// an e-mail address, the number of a bank account (ISO 13616) or of a card (ISO/IEC
// 7812), wherever in the text it stands, in the characters of any width.
func CheckPublishable(reference string) error {
	text := strings.ToUpper(strings.ReplaceAll(norm.NFKC.String(reference), "。", "."))
	kind := ""
	switch {
	case mailAddress.MatchString(text):
		kind = "an e-mail address"
	case holdsNumber(text, func(number, _ string) bool { return isIBAN(number) }):
		kind = "an IBAN"
	case holdsNumber(text, isCard):
		kind = "a card number"
	default:
		return nil
	}
	return errors.New("the reference looks like " + kind + ", and it is published with the receipt; use an invoice number or another name of your own")
}

// holdsNumber reports whether some groups in a row are a number of a kind. It is given
// the number, and how it is written.
func holdsNumber(text string, is func(number, written string) bool) bool {
	found := groups.FindAllStringIndex(text, -1)
	for first := range found {
		number := ""
		for _, group := range found[first:] {
			number += text[group[0]:group[1]]
			if is(number, text[found[first][0]:group[1]]) {
				return true
			}
		}
	}
	return false
}

// form of an IBAN: a country, two check digits, and 11 to 30 letters and digits.
var ibanForm = regexp.MustCompile(`^[A-Z]{2}[0-9]{2}[0-9A-Z]{11,30}$`)

// isIBAN checks the form and the check digits, also of a country that is not known.
// RF is no country: a creditor's reference (ISO 11649) is checked in the same way,
// and names an invoice.
func isIBAN(number string) bool {
	return ibanForm.MatchString(number) && number[:2] != "RF" && offer.Mod97(number)
}

var (
	cardForm = regexp.MustCompile(`^[0-9]{13,19}$`)
	// cardGroups are those of a card, which are no parts of a date or a time: in other
	// writing than with spaces and dashes they have three digits or more.
	cardGroups = regexp.MustCompile(`^([0-9 -]+|[0-9]{3,}([^0-9]+[0-9]{3,})*)$`)
)

// isCard checks the form, the groups and the check digit of Luhn.
func isCard(number, written string) bool {
	if !cardForm.MatchString(number) || !cardGroups.MatchString(written) {
		return false
	}
	sum := 0
	for n := range number {
		digit := int(number[len(number)-1-n] - '0')
		if n%2 == 1 {
			digit = digit*2/10 + digit*2%10
		}
		sum += digit
	}
	return sum%10 == 0
}
