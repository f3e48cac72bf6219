package offer

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// ibanLengths are the lengths of IBANs by country (SWIFT IBAN Registry, release 102).
var ibanLengths = map[string]int{
	"AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BI": 27, "BR": 29, "BY": 28, "CH": 21,
	"CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FK": 18, "FO": 18,
	"FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HN": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23,
	"IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27,
	"MD": 24, "ME": 22, "MK": 19, "MN": 20, "MR": 27, "MT": 31, "MU": 30, "NI": 28, "NL": 18, "NO": 15, "OM": 23, "PK": 24, "PL": 28,
	"PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "RU": 33, "SA": 24, "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27,
	"SO": 23, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20, "YE": 30,
}

// The countries whose banks take SEPA credit transfers (EPC409-09). In the European Economic
// Area an IBAN is enough; the others need the BIC, too.
const (
	countriesEEA  = "AT BE BG CY CZ DE DK EE ES FI FR GR HR HU IE IS IT LI LT LU LV MT NL NO PL PT RO SE SI SK"
	countriesSEPA = countriesEEA + " AD AL CH GB GI MC MD ME MK RS SM VA"
)

var (
	ibanForm = regexp.MustCompile(`^[A-Z]{2}[0-9]{2}[0-9A-Z]+$`)
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
	length, known := ibanLengths[iban[:2]]
	switch {
	case !known:
		return "", fmt.Errorf("this IBAN begins with %s, and no country has such IBANs; compare it with your bank statement", iban[:2])
	case len(iban) != length:
		return "", fmt.Errorf("this IBAN has %d characters, but IBANs of %s have %d; compare it with your bank statement", len(iban), iban[:2], length)
	case !Mod97(iban):
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

// bicElsewhere are the countries of banks with the country of their IBANs, if it is another
// (SWIFT IBAN Registry).
const bicElsewhere = "AX:FI GG:GB IM:GB JE:GB BL:FR GF:FR GP:FR MF:FR MQ:FR NC:FR PF:FR PM:FR RE:FR TF:FR WF:FR YT:FR"

// within reports whether an IBAN belongs to one of the countries.
func within(countries, iban string) bool { return strings.Contains(countries, iban[:2]) }

// inGroups separates an IBAN into groups of four.
func inGroups(iban string) string {
	var groups []string
	for ; len(iban) > 4; iban = iban[4:] {
		groups = append(groups, iban[:4])
	}
	return strings.Join(append(groups, iban), " ")
}
