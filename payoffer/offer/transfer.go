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
func (t *BankTransfer) Publish(b Bank) (err error) {
	if err := b.Check(); err != nil {
		return err
	}
	if b.IBAN != "" && within(countriesSEPA, b.IBAN) {
		if b.EPC, err = b.epc(t.memo); err != nil {
			return err
		}
	}
	t.bank = &b
	return nil
}

// Name is the path segment that the operator chose.
func (t *BankTransfer) Name() string { return t.name }

// Test is false: a bank's money is real.
func (t *BankTransfer) Test() bool { return false }

// Account is empty, because only the operator reports transfers.
func (t *BankTransfer) Account() string { return "" }

// Source is the seller, who reads the bank statement.
func (*BankTransfer) Source() Source { return SourceSeller }

// Face adds the bank's fees and days.
func (t *BankTransfer) Face() Face {
	name, note := Phrase{Key: "rail.transfer.name"}, Phrase{Key: "rail.transfer.note"}
	if t.bank != nil {
		note = Phrase{Key: "rail.transfer.direct"}
	}
	return Face{
		Icon: "M3 10l9-5 9 5M5 10v8M10 10v8M14 10v8M19 10v8M3 19h18",
		Name: name, Way: name, Fee: Phrase{Key: "rail.transfer.fee"}, Hint: Phrase{Key: "rail.transfer.time"},
		Act: Phrase{Key: "rail.transfer.act"}, Note: note, Page: PagePath(t.name), Asks: true,
	}
}

// TransactionURL is empty: only chains are public.
func (*BankTransfer) TransactionURL(string) string { return "" }

// Methods is the mailto URI (RFC 6068) that requests the invoice, with the account.
func (t *BankTransfer) Methods(_ *Offer, _ Live) []Method {
	subject := t.amount.String() + " USD bank transfer: " + t.memo
	body := fmt.Sprintf("Please send me an invoice for a bank transfer.\r\n\r\nAmount: %s USD\r\nPayee: %s\r\nMemo: %s\r\n",
		t.amount.Decimal(), t.payee, t.memo)
	return []Method{{
		Rail: t.name, Scheme: t.name, Title: t.amount.String() + " USD by bank transfer",
		URI:       "mailto:" + mailboxURI(t.Inbox) + "?subject=" + percentEncode(subject) + "&body=" + percentEncode(body),
		AmountUSD: t.amount, Network: OffChain, Asset: "USD", PayTo: t.Inbox, Memo: t.memo, Bank: t.bank, Available: true,
		Facts: t.short(),
	}}
}

// Facts are the details that the form of a bank asks for.
func (t *BankTransfer) Facts() []Fact {
	facts := []Fact{{Label: "amount", Value: dollars(t.amount), Copy: t.amount.Decimal()}}
	memo := Fact{Label: "memo", Value: Literal(t.memo), Copy: t.memo}
	if t.bank == nil {
		return append(facts, Fact{Label: "payee", Value: Literal(t.payee), Copy: t.payee}, Fact{Label: "inbox", Value: Literal(t.Inbox), Copy: t.Inbox}, memo)
	}
	if euros := t.bank.AmountEUR; euros > 0 {
		facts = slices.Insert(facts, 0, Fact{Label: "euros", Value: Phrase{Key: "fact.inEuros", With: With{"amount": euros}}, Copy: euros.Decimal()})
	}
	return append(append(facts, t.bank.facts()...), memo)
}

// short are the facts on a page with other rails. Next to an IBAN they have no other number
// of the account, and next to an amount in euros no other amount; the rail's own page has
// them.
func (t *BankTransfer) short() []Fact {
	return slices.DeleteFunc(t.Facts(), func(f Fact) bool {
		return t.bank != nil && t.bank.IBAN != "" && slices.Contains([]string{"bic", "routing", "account"}, f.Label) ||
			t.bank != nil && t.bank.AmountEUR > 0 && f.Label == "amount"
	})
}

// mailboxURI escapes a mailbox for a mailto URI and keeps its only at sign.
func mailboxURI(inbox string) string {
	return strings.Replace(percentEncode(inbox), "%40", "@", 1)
}
