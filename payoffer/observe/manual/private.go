package manual

import (
	"errors"
	"regexp"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

var (
	mailAddress = regexp.MustCompile(`[^\s@<>]+@[^\s@<>]+\.[^\s@<>]`)
	// groups are runs of letters and digits that spaces or dashes may part.
	groups = regexp.MustCompile(`[0-9A-Za-z]+(?:[ -]+[0-9A-Za-z]+)*`)
)

// CheckPublishable refuses a reference that would publish what belongs to a person:
// an e-mail address, the number of a bank account (ISO 13616) or of a card (ISO/IEC
// 7812), wherever in the text it stands.
func CheckPublishable(reference string) error {
	kind := ""
	if mailAddress.MatchString(reference) {
		kind = "an e-mail address"
	}
	for _, run := range groups.FindAllString(reference, -1) {
		words := strings.FieldsFunc(run, func(r rune) bool { return r == ' ' || r == '-' })
		for first := range words {
			for last := first + 1; last <= len(words); last++ {
				switch number := strings.ToUpper(strings.Join(words[first:last], "")); {
				case isIBAN(number):
					kind = "an IBAN"
				case isCard(number):
					kind = "a card number"
				}
			}
		}
	}
	if kind == "" {
		return nil
	}
	return errors.New("the reference looks like " + kind + ", and it is published with the receipt; use an invoice number or another name of your own")
}

// form of an IBAN: a country, two check digits, and 11 to 30 letters and digits.
var ibanForm = regexp.MustCompile(`^[A-Z]{2}[0-9]{2}[0-9A-Z]{11,30}$`)

// isIBAN checks the form and the check digits, also of a country that is not known.
// RF is no country: a creditor's reference (ISO 11649) is checked in the same way,
// and names an invoice.
func isIBAN(number string) bool {
	return ibanForm.MatchString(number) && number[:2] != "RF" && offer.Mod97(number)
}

var cardForm = regexp.MustCompile(`^[0-9]{13,19}$`)

// isCard checks the form and the check digit of Luhn.
func isCard(number string) bool {
	if !cardForm.MatchString(number) {
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
