package payoffer

import (
	"cmp"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// BankTransferConfig is the bank-transfer rail.
type BankTransferConfig struct {
	// The rail's name in paths: lower-case letters, digits and hyphens. Default: transfer.
	Name string `json:"name,omitempty"`

	// The e-mail address that answers with an invoice.
	Inbox string `json:"inbox,omitempty"`

	// What identifies the offer on a bank statement, at most 140 characters. Default: the
	// offer's name and amount.
	Memo string `json:"memo,omitempty"`

	// The account holder as the bank knows it, at most 70 characters. Required with iban or
	// account.
	AccountHolder string `json:"account_holder,omitempty"`

	// The seller's International Bank Account Number, which is published. Default: none; you
	// send it by e-mail.
	IBAN string `json:"iban,omitempty"`

	// The bank's code (BIC, SWIFT) for iban. Required outside the European Economic Area.
	// Default: none.
	BIC string `json:"bic,omitempty"`

	// The price in euros, which the QR code then contains. Default: none.
	PriceEUR string `json:"price_eur,omitempty"`

	// The routing number (ABA) of a bank in the United States. Required with account.
	Routing string `json:"routing,omitempty"`

	// The account number at that bank, which is published. Required with routing.
	Account string `json:"account,omitempty"`
}

// UnmarshalCaddyfile reads 'bank_transfer [<name>] <inbox> { ... }'.
func (b *BankTransferConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	values := []*string{&b.Name, &b.Inbox}
	if d.CountRemainingArgs() == 1 {
		values = values[1:]
	}
	return b.options().unmarshal(d, "bank_transfer [<name>] <inbox> { ... }", values...)
}

func (b *BankTransferConfig) options() options {
	return options{
		"memo": &b.Memo, "account_holder": &b.AccountHolder, "iban": &b.IBAN, "bic": &b.BIC, "price_eur": &b.PriceEUR,
		"routing": &b.Routing, "account": &b.Account,
	}
}

// provision makes the bank-transfer rail.
func (b *BankTransferConfig) provision(r *resolver, t offer.Terms, s *service.Settings) offer.Rail {
	name := cmp.Or(resolve(r, "bank_transfer", b.Name, parseRailName), "transfer")
	inbox := resolve(r, "bank_transfer", b.Inbox, offer.ParseMailbox)
	memo := cmp.Or(r.text("bank_transfer memo", b.Memo, 140), t.Name+" "+t.Amount.String())
	bank := offer.Bank{
		AccountHolderName: r.text("bank_transfer account_holder", b.AccountHolder, 70),
		IBAN:              resolve(r, "bank_transfer iban", b.IBAN, offer.ParseIBAN),
		BIC:               resolve(r, "bank_transfer bic", b.BIC, offer.ParseBIC),
		AmountEUR:         resolve(r, "bank_transfer price_eur", b.PriceEUR, offer.ParseEUR),
		RoutingNumber:     resolve(r, "bank_transfer routing", b.Routing, offer.ParseRouting),
		AccountNumber:     resolve(r, "bank_transfer account", b.Account, offer.ParseAccount),
	}
	published := bank != (offer.Bank{})
	r.customized = r.customized || published
	if r.replace(b.Inbox) == "" {
		if published {
			r.fail("bank_transfer", unset(b.Inbox, "the inbox is empty, but a bank account is set", "write the e-mail address that answers payers, "+
				"such as invoices@example.org, or remove the account"))
		}
		r.leaveOut("bank_transfer", name)
		return nil
	}
	if len(r.errs) > 0 {
		return nil
	}
	rail, err := offer.NewBankTransfer(name, inbox, memo, t.Operator, t.Amount)
	if err == nil && published {
		err = rail.Publish(bank)
	}
	if err != nil {
		r.fail("bank_transfer", err)
		return nil
	}
	s.Rails = append(s.Rails, service.Manual{Rail: rail})
	return rail
}

func parseRailName(s string) (string, error) { return s, offer.CheckRailName(s) }
