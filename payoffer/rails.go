package payoffer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Each block of the directive below: its options, how it is read, and how it is
// resolved. A block whose address is empty is left out, whatever it holds, unless that is
// a bank account: it is an address, too.

// upstreamOff is the word that turns the reading of a chain off.
const upstreamOff = "off"

// The mistakes that the Caddyfile and the resolver both find.
const (
	missingPaymentLink = "card: webhook_secret and api_key need payment_link, for other products of the same account are not this offer; add 'payment_link plink_…'"
	missingProduct     = "hook_secret and token need product, for other products of the same seller are not this offer; add 'product <id>'"
	halfAKey           = "facilitator: key_id and key_secret belong together; give both or none"
	halfAHeader        = "facilitator: a header needs a name and a value; write it as: header x-secret-key {env.SETTLER_KEY}"
	keyAndHeader       = "facilitator: header and key_id are two ways to authenticate; give one of them"
	emptyCard          = "is empty; write the address of the card checkout, which every offer has"
	noInbox            = "the inbox is empty, which leaves the rail out, and the account that is given would be shown to nobody; " +
		"write the e-mail address that answers (in the shipped Caddyfile TRANSFER_INBOX), or leave every option of the account empty, too"
)

// errNull is the mistake of a null in a list of the JSON configuration.
var errNull = errors.New("one is null; leave it out")

// keep resolves each block of a list. Those that resolve to false, for they
// have no address, are left out.
func keep[B any](r *resolver, name string, blocks []*B, resolve func(*B) bool) []*B {
	return slices.DeleteFunc(blocks, func(b *B) bool {
		if b == nil {
			r.fail(name, errNull)
			return true
		}
		return !resolve(b)
	})
}

func (h *Handler) parseRateLimit(d *caddyfile.Dispenser) error {
	var attempts, window string
	if !d.AllArgs(&attempts, &window) {
		return wrongArgs(d, "rate_limit")
	}
	h.RateLimit = new(RateLimitConfig)
	n, err := strconv.Atoi(attempts)
	if err != nil || n < 1 || n > maxAttempts {
		return refused(d, "rate_limit", attempts, fmt.Errorf("%q is not a whole number from 1 to %d", attempts, maxAttempts))
	}
	h.RateLimit.Attempts = n
	return parseDuration(d, "rate_limit", window, &h.RateLimit.Window)
}

func (h *Handler) resolveRateLimit(r *resolver, name string) {
	if limit := h.RateLimit; limit != nil && (limit.Attempts < 0 || limit.Attempts > maxAttempts || limit.Window < 0) {
		r.fail(name, fmt.Errorf("write 1 to %d attempts and a positive window", maxAttempts))
	}
}

func (c *CardConfig) options() block {
	return block{
		"methods":        list(&c.Methods, checkPaymentMethod),
		"payment_link":   text(&c.PaymentLink, checkPaymentLink),
		"webhook_secret": secret(&c.WebhookSecret),
		"api_key":        secret(&c.APIKey),
		"test_mode":      flag(&c.TestMode),
		"since":          text(&c.Since, checkSince),
	}
}

func (h *Handler) parseCard(d *caddyfile.Dispenser) error {
	c := new(CardConfig)
	h.Card = c
	if err := text(&c.URL, checkURL).parse(d); err != nil {
		return err
	}
	if c.URL == "" {
		return d.Errf("card %s%s", emptyCard, unset(d, d.Line()))
	}
	linked, options := false, c.options()
	options["payment_link"] = noted(&linked, options["payment_link"])
	if err := options.parse(d, "card"); err != nil {
		return err
	}
	if c.observed() && !linked {
		return d.Err(missingPaymentLink)
	}
	return nil
}

func (h *Handler) resolveCard(r *resolver, name string) {
	if h.Card == nil {
		r.fail(name, errors.New("is missing; write the address of the card checkout"))
		return
	}
	c := h.Card
	if r.text(name, &c.URL, checkURL); c.URL == "" {
		r.fail(name, errors.New(emptyCard))
	}
	if c.options().resolve(r, name); c.observed() && c.PaymentLink == "" {
		r.errs = append(r.errs, errors.New(missingPaymentLink))
	}
	r.hook(offer.RailCard, name+" webhook_secret")
}

func (c *CardConfig) observed() bool { return c.WebhookSecret != "" || c.APIKey != "" }

func (b *BitcoinConfig) options() block {
	return block{
		"esplora":       list(&b.Esplora, checkUpstreamOrOff),
		"rates":         list(&b.Rates, checkRateSource),
		"explorer":      text(&b.Explorer, checkExplorer),
		"confirmations": number(&b.Confirmations, 1, maxConfirmations, fmt.Sprintf("a whole number from 1 to %d", maxConfirmations)),
		"since":         text(&b.Since, checkSince),
		"address_type":  text(&b.AddressType, noSecret(offer.CheckAddressType)),
		"first_address": text(&b.FirstAddress, noSecret(anything)),
	}
}

func (h *Handler) parseBitcoin(d *caddyfile.Dispenser) error {
	b := new(BitcoinConfig)
	h.Bitcoin = b
	if err := text(&b.Account, offer.CheckBitcoinAccount).parse(d); err != nil {
		return err
	}
	if err := b.options().parse(d, "bitcoin"); err != nil || b.Account == "" || hasPlaceholder(b.Account+b.AddressType+b.FirstAddress) {
		return err
	}
	if err := b.confirm(); err != nil {
		return d.Errf("bitcoin: %v", err)
	}
	return nil
}

func (h *Handler) resolveBitcoin(r *resolver, name string) {
	if h.Bitcoin == nil {
		return
	}
	b, found := h.Bitcoin, len(r.errs)
	if r.text(name, &b.Account, offer.CheckBitcoinAccount); b.Account == "" {
		r.leftOut = append(r.leftOut, offer.RailBitcoin)
		h.Bitcoin = nil
		return
	}
	if b.options().resolve(r, name); len(r.errs) == found {
		if err := b.confirm(); err != nil {
			r.fail(name, err)
		}
	}
	if err := aloneIfOff("esplora", b.Esplora); err != nil {
		r.fail(name, err)
	}
}

// confirm requires that the key's wallet shows what is published, and that the chain
// is read which alone tells which of its addresses is next.
func (b *BitcoinConfig) confirm() error {
	if err := offer.ConfirmBitcoinAccount(b.Account, b.AddressType, b.FirstAddress); err != nil {
		return err
	}
	rail, err := offer.NewBitcoin(b.Account, "", 0)
	if err == nil && rail.Extended() && slices.Contains(b.Esplora, upstreamOff) {
		err = errors.New("an extended public key needs esplora, for the chain alone tells which of its addresses is next; leave out 'esplora off', or write a single address in place of the key")
	}
	return err
}

func (b *BankTransferConfig) options() block {
	return block{
		"memo":           text(&b.Memo, checkMemo),
		"account_holder": text(&b.AccountHolder, checkHolder),
		"iban":           text(&b.IBAN, checkIBAN),
		"bic":            text(&b.BIC, checkBIC),
		"price_eur":      text(&b.PriceEUR, checkEuros),
		"routing":        text(&b.Routing, checkRouting),
		"account":        text(&b.Account, checkBankAccount),
	}
}

// bank is the account of options that are checked one by one; nil for none.
func (b *BankTransferConfig) bank() *offer.Bank {
	if b.AccountHolder+b.IBAN+b.BIC+b.PriceEUR+b.Routing+b.Account == "" {
		return nil
	}
	bank := &offer.Bank{AccountHolderName: b.AccountHolder}
	bank.IBAN, _ = offer.ParseIBAN(b.IBAN)
	bank.BIC, _ = offer.ParseBIC(b.BIC)
	bank.AmountEUR, _ = offer.ParseEUR(b.PriceEUR)
	bank.RoutingNumber, _ = offer.ParseRouting(b.Routing)
	bank.AccountNumber, _ = offer.ParseAccount(b.Account)
	return bank
}

func (h *Handler) parseBankTransfer(d *caddyfile.Dispenser) error {
	b := new(BankTransferConfig)
	h.BankTransfer = b
	arguments := []argument{{&b.Name, checkRailName}, {&b.Inbox, checkMailbox}}
	if d.CountRemainingArgs() == 1 {
		arguments = arguments[1:]
	}
	if err := parseArguments(d, "bank_transfer", arguments...); err != nil {
		return err
	}
	if err := h.checkUniqueName(d, b.name(), nil); err != nil {
		return err
	}
	if err := b.options().parse(d, "bank_transfer"); err != nil {
		return err
	}
	bank := b.bank()
	if bank != nil && b.Inbox == "" {
		return d.Err("bank_transfer: " + noInbox)
	}
	if bank == nil || hasPlaceholder(b.AccountHolder+b.IBAN+b.BIC+b.PriceEUR+b.Routing+b.Account) {
		return nil // there is nothing to publish, or it is only known later
	}
	if err := bank.Check(); err != nil {
		return d.Errf("bank_transfer: %v", err)
	}
	return nil
}

func (h *Handler) resolveBankTransfer(r *resolver, name string) {
	if h.BankTransfer == nil {
		return
	}
	b := h.BankTransfer
	r.text(name, &b.Inbox, checkMailbox)
	r.text(name, &b.Name, checkRailName)
	if b.options().resolve(r, name); b.Inbox != "" {
		return
	}
	if b.bank() != nil {
		r.fail(name, errors.New(noInbox))
	}
	r.leftOut = append(r.leftOut, b.name())
	h.BankTransfer = nil
}

func (s *StorefrontConfig) options() block {
	return block{
		"hook_secret": secret(&s.HookSecret),
		"seller":      text(&s.Seller, checkShopID),
		"product":     text(&s.Product, checkShopID),
		"token":       secret(&s.Token),
		"since":       text(&s.Since, checkSince),
	}
}

func (h *Handler) parseStorefront(d *caddyfile.Dispenser) error {
	s := new(StorefrontConfig)
	if err := parseArguments(d, "storefront", argument{&s.Name, checkRailName}, argument{&s.URL, checkURL}); err != nil {
		return err
	}
	if s.Name == "" {
		return d.Err("storefront: the name is empty; write 'storefront <name> <url>'")
	}
	if err := h.checkUniqueName(d, s.Name, h.BankTransfer); err != nil {
		return err
	}
	h.Storefronts = append(h.Storefronts, s)
	named, options := false, s.options()
	options["product"] = noted(&named, options["product"])
	if err := options.parse(d, "storefront"); err != nil {
		return err
	}
	if s.observed() && !named {
		return d.Errf("storefront %s: %s", repeatable(s.Name), missingProduct)
	}
	return nil
}

// checkUniqueName refuses a rail name that a storefront, or transfer, has.
func (h *Handler) checkUniqueName(d *caddyfile.Dispenser, name string, transfer *BankTransferConfig) error {
	taken := transfer != nil && transfer.name() == name
	for _, s := range h.Storefronts {
		taken = taken || s.Name == name
	}
	if taken {
		return d.Errf("two rails are named %q; give one of them another name", name)
	}
	return nil
}

func (h *Handler) resolveStorefronts(r *resolver, name string) {
	h.Storefronts = keep(r, name, h.Storefronts, func(s *StorefrontConfig) bool {
		if r.text(name, &s.Name, checkRailName); s.Name == "" {
			r.fail(name, errors.New("the name is empty"))
			return false
		} else if checkNoSecret(s.Name) != nil {
			return false // which was said, and what follows would repeat it
		}
		option := name + " " + repeatable(s.Name)
		if r.text(option, &s.URL, checkURL); s.URL == "" {
			r.leftOut = append(r.leftOut, s.Name)
			return false
		}
		if s.options().resolve(r, option); s.observed() && s.Product == "" {
			r.fail(option, errors.New(missingProduct))
		}
		r.hook(s.Name, option+" hook_secret")
		return true
	})
}

func (s *StorefrontConfig) observed() bool { return s.HookSecret != "" || s.Token != "" }
