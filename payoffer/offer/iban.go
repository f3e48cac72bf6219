package offer

import (
	"errors"
	"regexp"
	"strings"
)

// The countries whose banks take SEPA credit transfers (EPC409-09). In the European Economic
// Area an IBAN is enough; the others need the BIC, too.
const (
	countriesEEA  = "AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IS IT LI LT LU LV MT NL NO PL PT RO SE SI SK"
	countriesSEPA = countriesEEA + " AD AL CH GB GI MC MD ME MK RS SM VA"
)

var (
	ibanForm = regexp.MustCompile(`^[A-Z]{2}[0-9]{2}[0-9A-Z]{11,30}$`)
	bicForm  = regexp.MustCompile(`^[A-Z0-9]{4}[A-Z]{2}[A-Z0-9]{2}([A-Z0-9]{3})?$`)
)

// printed removes the separators of a printed number.
var printed = strings.NewReplacer(" ", "", "\u00a0", "", "-", "")

// ParseIBAN reads an International Bank Account Number (ISO 13616) and returns its electronic
// form. Errors do not repeat the number.
func ParseIBAN(s string) (string, error) {
	iban := strings.ToUpper(printed.Replace(s))
	if !ibanForm.MatchString(iban) {
		return "", errors.New("this is not an IBAN; write one such as DE75 5121 0800 1245 1261 99")
	}
	if !Mod97(iban) {
		return "", errors.New("the check digits of this IBAN are wrong; compare it with your bank statement")
	}
	return iban, nil
}

// Mod97 checks the check digits (ISO/IEC 7064, MOD 97-10) of an IBAN or a creditor reference.
func Mod97(number string) bool {
	remainder := 0
	for _, c := range number[4:] + number[:4] {
		if c >= 'A' {
			remainder = (remainder*100 + int(c-'A') + 10) % 97
		} else {
			remainder = (remainder*10 + int(c-'0')) % 97
		}
	}
	return remainder == 1
}

// ParseBIC reads a Business Identifier Code (ISO 9362) and returns it in capital letters.
func ParseBIC(s string) (string, error) {
	bic := strings.ToUpper(printed.Replace(s))
	if !bicForm.MatchString(bic) {
		return "", errors.New("this is not a BIC; write one with 8 or 11 letters and digits, such as SOGEDEFF")
	}
	return bic, nil
}

// isIn reports whether an IBAN belongs to one of the countries.
func isIn(countries, iban string) bool { return strings.Contains(countries, iban[:2]) }

// inGroups separates an IBAN into groups of four.
func inGroups(iban string) string {
	var groups []string
	for ; len(iban) > 4; iban = iban[4:] {
		groups = append(groups, iban[:4])
	}
	return strings.Join(append(groups, iban), " ")
}
