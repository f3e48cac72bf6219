package offer

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Bank is the account for bank transfers, as the invoice publishes it: an IBAN, an account
// number in the United States, or both.
type Bank struct {
	AccountHolderName string `json:"accountHolderName"`
	IBAN              string `json:"iban,omitempty" jsonschema:"ISO 13616, in its electronic form."`
	BIC               string `json:"bic,omitempty" jsonschema:"ISO 9362."`
	// AmountEUR is the price in euros; 0 if the operator sets none.
	AmountEUR     EUR    `json:"amountEur,omitempty" jsonschema:"The price in euros, if the operator sets one."`
	RoutingNumber string `json:"routingNumber,omitempty" jsonschema:"ABA routing number."`
	AccountNumber string `json:"accountNumber,omitempty"`
	// EPC is the text of the QR code with which a banking app fills in a SEPA credit
	// transfer; empty for an account outside SEPA.
	EPC string `json:"epc,omitempty" jsonschema:"The text of the EPC QR code (EPC069-12)."`
}

// maxHolder is the longest name of an account holder in a SEPA credit transfer, in characters.
const maxHolder = 70

// Check finds missing options and details that banks would refuse. The numbers are parsed.
func (b *Bank) Check() error {
	switch {
	case b.IBAN == "" && b.AccountNumber == "" && b.RoutingNumber == "" && b.BIC == "" && b.AmountEUR == 0:
		return errors.New("account_holder has no account; add 'iban <number>', or 'routing <number>' and 'account <number>'")
	case b.BIC != "" && b.IBAN == "":
		return errors.New("bic needs iban; add 'iban <number>'")
	case b.AmountEUR != 0 && b.IBAN == "":
		return errors.New("price_eur needs iban; add 'iban <number>'")
	case (b.RoutingNumber == "") != (b.AccountNumber == ""):
		return errors.New("routing and account are needed together; add the missing one, such as 'routing 021000021', or remove both")
	case b.AccountHolderName == "":
		return errors.New("account_holder is missing, and banks compare the name; add it, such as 'account_holder \"Jane Doe\"'")
	case utf8.RuneCountInString(b.AccountHolderName) > maxHolder || CheckPrintable(b.AccountHolderName) != nil:
		return fmt.Errorf("account_holder is too long or has a line break; write at most %d characters on one line", maxHolder)
	case b.IBAN == "":
		return nil
	case b.BIC == "" && !isIn(countriesEEA, b.IBAN):
		return fmt.Errorf("an IBAN of %s is outside the European Economic Area and needs the BIC; add 'bic <code>'", b.IBAN[:2])
	}
	return nil
}

// maxEPC is the longest text of an EPC QR code, in bytes (EPC069-12, version 2.1).
const maxEPC = 331

// epc is the text of the EPC QR code for a transfer with a memo, in version 2, which does not
// require the BIC. Its lines are service, version, character set, identification, BIC, name,
// IBAN, amount, purpose, structured and free reference.
func (b *Bank) epc(memo string) (string, error) {
	amount := ""
	if b.AmountEUR > 0 {
		amount = "EUR" + b.AmountEUR.Decimal()
	}
	code := strings.Join([]string{"BCD", "002", "1", "SCT", b.BIC, b.AccountHolderName, b.IBAN, amount, "", "", memo}, "\n")
	if len(code) > maxEPC {
		return "", fmt.Errorf("an EPC QR code has at most %d bytes, and these details have %d; shorten memo or account_holder", maxEPC, len(code))
	}
	return code, nil
}

// String is the holder and the numbers in one line.
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

var (
	routingForm = regexp.MustCompile(`^(0[1-9]|1[0-2]|2[1-9]|3[0-2]|6[1-9]|7[0-2]|80)[0-9]{7}$`)
	accountForm = regexp.MustCompile(`^[0-9]{4,17}$`)
)

// ParseRouting reads the routing number of a bank in the United States (ABA). The sum of its
// digits, weighted 3, 7 and 1, is a multiple of 10.
func ParseRouting(s string) (string, error) {
	number := printed.Replace(s)
	if !routingForm.MatchString(number) {
		return "", errors.New("this is not an ABA routing number; write one with 9 digits, such as 021000021")
	}
	sum := 0
	for i, c := range number {
		sum += int(c-'0') * []int{3, 7, 1}[i%3]
	}
	if sum%10 != 0 {
		return "", errors.New("the check digit of this routing number is wrong; compare it with your bank statement")
	}
	return number, nil
}

// ParseAccount reads an account number in the United States. It has no check digits.
func ParseAccount(s string) (string, error) {
	number := printed.Replace(s)
	if !accountForm.MatchString(number) {
		return "", errors.New("this is not an account number; it must have 4 to 17 digits")
	}
	return number, nil
}
