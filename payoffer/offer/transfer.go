package offer

import (
	"fmt"
	"slices"
	"strings"
)

// BankTransfer is the bank-transfer rail: the payer requests an invoice by e-mail, or transfers
// to the published account.
type BankTransfer struct {
	Inbox             string // the e-mail address that answers with the bank details
	bank              *Bank  // the account; nil if it is only sent by e-mail
	name, memo, payee string
	amount            USD
}

// NewBankTransfer makes the rail. name is its path segment, and memo identifies the offer on the
// bank statement. Invisible characters are refused, because a line break in the subject of
// a mail could start another header field.
func NewBankTransfer(name, inbox, memo, payee string, amount USD) (*BankTransfer, error) {
	inbox, err := ParseMailbox(inbox)
	if err != nil {
		return nil, err
	}
	for _, text := range []string{memo, payee} {
		if err := CheckPrintable(text); err != nil {
			return nil, err
		}
	}
	return &BankTransfer{name: name, Inbox: inbox, memo: memo, payee: payee, amount: amount}, nil
}

// Publish adds the account, whose numbers are parsed, unless Check refuses it.
func (bt *BankTransfer) Publish(b Bank) (err error) {
	if err := b.Check(); err != nil {
		return err
	}
	if b.IBAN != "" && isIn(countriesSEPA, b.IBAN) {
		if b.EPC, err = b.epc(bt.memo); err != nil {
			return err
		}
	}
	bt.bank = &b
	return nil
}

// Name is the path segment that the operator chose.
func (bt *BankTransfer) Name() string { return bt.name }

// Test is false: a bank's money is real.
func (bt *BankTransfer) Test() bool { return false }

// Account is empty, because only the operator reports transfers.
func (bt *BankTransfer) Account() string { return "" }

// Source is the seller, who reads the bank statement.
func (*BankTransfer) Source() Source { return SourceSeller }

// Face adds the bank's fees and days.
func (bt *BankTransfer) Face() Face {
	name := Phrase{Key: "rail.transfer.name"}
	return Face{
		Icon: "M3 10l9-5 9 5M5 10v8M10 10v8M14 10v8M19 10v8M3 19h18",
		Name: name, Way: name, Fee: Phrase{Key: "rail.transfer.fee"}, Hint: Phrase{Key: "rail.transfer.time"},
		Act: Phrase{Key: "rail.transfer.act"}, Page: PagePath(bt.name), Asks: true,
	}
}

// TransactionURL is empty: only chains are public.
func (*BankTransfer) TransactionURL(string) string { return "" }

// Methods is the mailto URI (RFC 6068) that requests the invoice, with the account.
func (bt *BankTransfer) Methods(_ *Offer, _ Live) []Method {
	subject := bt.amount.String() + " USD bank transfer: " + bt.memo
	body := fmt.Sprintf("Please send me an invoice for a bank transfer.\r\n\r\nAmount: %s USD\r\nPayee: %s\r\nMemo: %s\r\n",
		bt.amount.Decimal(), bt.payee, bt.memo)
	return []Method{{
		Rail: bt.name, Scheme: bt.name, Title: bt.amount.String() + " USD by bank transfer",
		URI:       "mailto:" + mailboxURI(bt.Inbox) + "?subject=" + percentEncode(subject) + "&body=" + percentEncode(body),
		AmountUSD: bt.amount, Network: OffChain, Asset: "USD", PayTo: bt.Inbox, Memo: bt.memo, Bank: bt.bank, Available: true,
		Facts: bt.short(),
	}}
}

// Account is the details of one bank account on a page.
type Account struct {
	Title string // the key of its heading
	Facts []Fact // what the form of a bank asks for, with one amount
}

// Accounts are the accounts: by IBAN, and in the United States. Without a published account the only one
// has what to ask the seller for.
func (bt *BankTransfer) Accounts() (accounts []Account) {
	literal := func(label, value string) Fact { return Fact{Label: label, Value: Literal(value), Copy: value} }
	amount, memo := Fact{Label: "amount", Value: dollars(bt.amount), Copy: bt.amount.Decimal()}, literal("memo", bt.memo)
	b := bt.bank
	if b == nil {
		return []Account{{Facts: []Fact{amount, literal("payee", bt.payee), literal("inbox", bt.Inbox), memo}}}
	}
	holder := literal("holder", b.AccountHolderName)
	if b.IBAN != "" {
		price := amount
		if b.AmountEUR > 0 {
			price = Fact{Label: "euros", Value: Phrase{Key: "fact.inEuros", With: With{"amount": b.AmountEUR}}, Copy: b.AmountEUR.Decimal()}
		}
		facts := []Fact{price, holder, {Label: "iban", Value: Literal(inGroups(b.IBAN)), Copy: b.IBAN}}
		if b.BIC != "" {
			facts = append(facts, literal("bic", b.BIC))
		}
		accounts = append(accounts, Account{"transfer.sepa", append(facts, memo)})
	}
	if b.AccountNumber != "" {
		accounts = append(accounts, Account{"transfer.us", []Fact{amount, holder, literal("routing", b.RoutingNumber), literal("account", b.AccountNumber), memo}})
	}
	return accounts
}

// short are the facts on a page with other rails: those of the first account, or what the
// invoice will be for. The rail's own page has all.
func (bt *BankTransfer) short() []Fact {
	return slices.DeleteFunc(bt.Accounts()[0].Facts, func(f Fact) bool { return slices.Contains([]string{"payee", "inbox"}, f.Label) })
}

// mailboxURI escapes a mailbox for a mailto URI and keeps its only at sign.
func mailboxURI(inbox string) string {
	return strings.Replace(percentEncode(inbox), "%40", "@", 1)
}
