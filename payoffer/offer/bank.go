package offer

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Bank is the account that a bank transfer goes to, as the invoice publishes it: by its IBAN,
// by its number at a bank of the United States, or by both.
type Bank struct {
	AccountHolderName string `json:"accountHolderName"`
	IBAN              string `json:"iban,omitempty" jsonschema:"ISO 13616, in its electronic form."`
	BIC               string `json:"bic,omitempty" jsonschema:"ISO 9362."`
	// AmountEUR is what the operator takes in euros for the price; 0 where none is fixed.
	AmountEUR     EUR    `json:"amountEur,omitempty" jsonschema:"The price in euros, where the operator fixes one."`
	RoutingNumber string `json:"routingNumber,omitempty" jsonschema:"ABA routing number."`
	AccountNumber string `json:"accountNumber,omitempty"`
	// EPC is the text of the QR code by which an app of a payer's bank fills in a SEPA credit
	// transfer; empty for an account that takes none.
	EPC string `json:"epc,omitempty" jsonschema:"The text of the EPC QR code (EPC069-12)."`
}

// maxHolder is the longest name of an account's holder that a SEPA credit transfer takes, in
// characters.
const maxHolder = 70

// Check finds what payers' banks would refuse, and what the operator left out. The numbers
// were parsed.
func (b *Bank) Check() error {
	switch {
	case b.IBAN == "" && b.AccountNumber == "" && b.RoutingNumber == "" && b.BIC == "" && b.AmountEUR == 0:
		return errors.New("account_holder names no account; add 'iban <number>', or 'routing <number>' and 'account <number>'")
	case b.BIC != "" && b.IBAN == "":
		return errors.New("bic is of no use without iban; add 'iban <number>'")
	case b.AmountEUR != 0 && b.IBAN == "":
		return errors.New("price_eur is of no use without iban; add 'iban <number>'")
	case (b.RoutingNumber == "") != (b.AccountNumber == ""):
		return errors.New("routing and account belong together; give both or none")
	case b.AccountHolderName == "":
		return errors.New("account_holder is missing; add it, for payers' banks ask for the name and compare it")
	case utf8.RuneCountInString(b.AccountHolderName) > maxHolder || CheckPrintable(b.AccountHolderName) != nil:
		return fmt.Errorf("account_holder has at most %d characters, and no line break", maxHolder)
	case b.IBAN == "":
		return nil
	case b.BIC == "" && !within(countriesEEA, b.IBAN):
		return fmt.Errorf("an IBAN of %s is outside the European Economic Area, where banks need the BIC beside it; add 'bic <code>'", b.IBAN[:2])
	case b.BIC != "" && !agrees(b.BIC, b.IBAN):
		return fmt.Errorf("the BIC is that of a bank in %s, and the IBAN one of %s; compare both with what your bank prints", b.BIC[4:6], b.IBAN[:2])
	}
	return nil
}

// maxEPC is the longest text of an EPC QR code, in bytes (EPC069-12, version 2.1): that of
// a code of version 13 at error correction level M.
const maxEPC = 331

// epc is the text of the EPC QR code for a transfer with a memo: version 2, in which the BIC
// may be left out, in UTF-8. Its lines are service, version, character set, identification,
// BIC, name, IBAN, amount, purpose, structured and free reference; nothing follows the last.
func (b *Bank) epc(memo string) (string, error) {
	amount := ""
	if b.AmountEUR > 0 {
		amount = "EUR" + b.AmountEUR.Decimal()
	}
	code := strings.Join([]string{"BCD", "002", "1", "SCT", b.BIC, b.AccountHolderName, b.IBAN, amount, "", "", memo}, "\n")
	if len(code) > maxEPC {
		return "", fmt.Errorf("the EPC QR code has room for %d bytes, and these details have %d; shorten memo or account_holder", maxEPC, len(code))
	}
	return code, nil
}

// String is the account for a program's reader: whose it is, and its numbers.
func (b *Bank) String() string {
	var numbers []string
	if b.IBAN != "" {
		numbers = append(numbers, strings.TrimSuffix("IBAN "+b.IBAN+", BIC "+b.BIC, ", BIC "))
	}
	if b.AccountNumber != "" {
		numbers = append(numbers, "routing number "+b.RoutingNumber+", account number "+b.AccountNumber)
	}
	return b.AccountHolderName + ": " + strings.Join(numbers, "; ")
}

// facts are the account's terms for people.
func (b *Bank) facts() (facts []Fact) {
	add := func(label, shown, copied string) {
		if copied != "" {
			facts = append(facts, Fact{Label: label, Value: Literal(shown), Copy: copied})
		}
	}
	add("holder", b.AccountHolderName, b.AccountHolderName)
	add("iban", inGroups(b.IBAN), b.IBAN)
	add("bic", b.BIC, b.BIC)
	add("routing", b.RoutingNumber, b.RoutingNumber)
	add("account", b.AccountNumber, b.AccountNumber)
	return facts
}

var (
	routingForm = regexp.MustCompile(`^(0[1-9]|1[0-2]|2[1-9]|3[0-2]|6[1-9]|7[0-2]|80)[0-9]{7}$`)
	accountForm = regexp.MustCompile(`^[0-9]{4,17}$`)
)

// ParseRouting reads the routing number of a bank in the United States (ABA), whose digits
// weighed by 3, 7 and 1 add up to tens.
func ParseRouting(s string) (string, error) {
	number := printed.Replace(s)
	if !routingForm.MatchString(number) {
		return "", errors.New("this is not an ABA routing number; it has 9 digits, as in 021000021")
	}
	sum := 0
	for i, c := range number {
		sum += int(c-'0') * []int{3, 7, 1}[i%3]
	}
	if sum%10 != 0 {
		return "", errors.New("the check digit of this routing number is wrong: a digit is mistyped or two changed places; compare it with what your bank prints")
	}
	return number, nil
}

// ParseAccount reads the number of an account at a bank in the United States, which has no
// check digits of its own.
func ParseAccount(s string) (string, error) {
	number := printed.Replace(s)
	if !accountForm.MatchString(number) {
		return "", errors.New("this is not an account number; it has 4 to 17 digits, as your bank prints it")
	}
	return number, nil
}
