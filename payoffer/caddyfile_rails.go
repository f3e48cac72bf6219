package payoffer

import (
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func (h *Handler) parseCard(d *caddyfile.Dispenser) error {
	c := new(CardConfig)
	h.Card = c
	if err := text(&c.URL, checkURL).parse(d); err != nil {
		return err
	}
	if c.URL == "" {
		return d.Err("card is empty; write the address of the card checkout, which every offer has")
	}
	linked := false
	if err := parseBlock(d, "card", map[string]option{
		"methods":        list(&c.Methods, checkPaymentMethod),
		"payment_link":   noted(&linked, text(&c.PaymentLink, checkPaymentLink)),
		"webhook_secret": secret(&c.WebhookSecret),
		"api_key":        secret(&c.APIKey),
		"test_mode":      flag(&c.TestMode),
	}); err != nil {
		return err
	}
	if (c.WebhookSecret != "" || c.APIKey != "") && !linked {
		return d.Err(missingPaymentLink)
	}
	return nil
}

func (h *Handler) parseUSDC(d *caddyfile.Dispenser) error {
	u := new(USDCConfig)
	if !d.AllArgs(&u.Network, &u.Address) {
		return wrongArgs(d, "usdc")
	}
	if strings.HasPrefix(u.Network, "0x") {
		return d.Err("usdc: the network comes first, then the address; write 'usdc <network> <address>'")
	}
	if err := checkArg(d, "usdc", u.Network, checkNetwork); err != nil {
		return err
	}
	if err := checkArg(d, "usdc", u.Address, checkEVMAddress); err != nil {
		return err
	}
	for _, other := range h.USDC {
		if sameChain(u.Network, other.Network) {
			return d.Errf("usdc: %s is given twice; one line a chain", u.Network)
		}
	}
	h.USDC = append(h.USDC, u)
	err := parseBlock(d, "usdc", map[string]option{
		"facilitator": {parse: u.parseFacilitator, repeats: true},
		"rpc":         list(&u.RPC, checkUpstreamOrOff),
		"confirm":     text(&u.Confirm, checkConfirm),
		"from_block":  {parse: u.parseFromBlock},
	})
	if err != nil {
		return err
	}
	if err := u.check(); err != nil {
		return d.Errf("usdc: %v", err)
	}
	return nil
}

// sameChain reports whether two networks, by name or CAIP-2 id, are one known
// chain.
func sameChain(a, b string) bool {
	one, err := offer.LookupNetwork(a)
	if err != nil {
		return false
	}
	other, err := offer.LookupNetwork(b)
	return err == nil && one.ChainID == other.ChainID
}

func (u *USDCConfig) parseFromBlock(d *caddyfile.Dispenser) error {
	var value string
	if !d.AllArgs(&value) {
		return wrongArgs(d, "from_block")
	}
	block, err := strconv.ParseUint(value, 10, 63)
	if err != nil {
		return d.Errf("from_block: %q is not a block number", value)
	}
	u.FromBlock = block
	return nil
}

func (u *USDCConfig) parseFacilitator(d *caddyfile.Dispenser) error {
	f := new(FacilitatorConfig)
	u.Facilitators = append(u.Facilitators, f)
	if err := text(&f.URL, checkUpstream).parse(d); err != nil {
		return err
	}
	if err := parseBlock(d, "facilitator", map[string]option{
		"key_id":     secret(&f.KeyID),
		"key_secret": secret(&f.KeySecret),
		"timeout": {parse: func(d *caddyfile.Dispenser) error {
			var value string
			if !d.AllArgs(&value) {
				return wrongArgs(d, "timeout")
			}
			return parseDuration(d, "timeout", value, &f.Timeout)
		}},
	}); err != nil {
		return err
	}
	if (f.KeyID == "") != (f.KeySecret == "") {
		return d.Err(halfAKey)
	}
	return nil
}

func (h *Handler) parseBitcoin(d *caddyfile.Dispenser) error {
	b := new(BitcoinConfig)
	h.Bitcoin = b
	if err := text(&b.Account, offer.CheckBitcoinAccount).parse(d); err != nil {
		return err
	}
	return parseBlock(d, "bitcoin", map[string]option{
		"esplora":       list(&b.Esplora, checkUpstreamOrOff),
		"rates":         list(&b.Rates, checkRateSource),
		"confirmations": number(&b.Confirmations, 1, maxConfirmations),
	})
}

func (h *Handler) parseBankTransfer(d *caddyfile.Dispenser) error {
	b := new(BankTransferConfig)
	h.BankTransfer = b
	args := d.RemainingArgs()
	switch len(args) {
	case 1:
		b.Inbox = args[0]
	case 2:
		b.Name, b.Inbox = args[0], args[1]
	default:
		return wrongArgs(d, "bank_transfer")
	}
	if err := checkArg(d, "bank_transfer", b.Name, offer.CheckRailName); err != nil {
		return err
	}
	if err := checkArg(d, "bank_transfer", b.Inbox, checkMailbox); err != nil {
		return err
	}
	if err := h.checkUniqueName(d, b.name(), nil); err != nil {
		return err
	}
	return parseBlock(d, "bank_transfer", map[string]option{"memo": text(&b.Memo, checkMemo)})
}

func (h *Handler) parseStorefront(d *caddyfile.Dispenser) error {
	s := new(StorefrontConfig)
	if !d.AllArgs(&s.Name, &s.URL) {
		return wrongArgs(d, "storefront")
	}
	if s.Name == "" {
		return d.Err("storefront: the name is empty; write 'storefront <name> <url>'")
	}
	if err := checkArg(d, "storefront", s.Name, offer.CheckRailName); err != nil {
		return err
	}
	if err := checkArg(d, "storefront", s.URL, checkURL); err != nil {
		return err
	}
	if err := h.checkUniqueName(d, s.Name, h.BankTransfer); err != nil {
		return err
	}
	h.Storefronts = append(h.Storefronts, s)
	named := false
	if err := parseBlock(d, "storefront", map[string]option{
		"hook_secret": secret(&s.HookSecret),
		"seller":      text(&s.Seller, checkShopID),
		"product":     noted(&named, text(&s.Product, checkShopID)),
		"token":       secret(&s.Token),
	}); err != nil {
		return err
	}
	if (s.HookSecret != "" || s.Token != "") && !named {
		return d.Errf("storefront %s: %s", s.Name, missingProduct)
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

func (h *Handler) parseAnnounce(d *caddyfile.Dispenser) error {
	a := new(AnnounceConfig)
	h.Announce = append(h.Announce, a)
	if err := text(&a.URL, checkUpstream).parse(d); err != nil {
		return err
	}
	return parseBlock(d, "announce", map[string]option{"secret": secret(&a.Secret)})
}

func (h *Handler) parseFunding(d *caddyfile.Dispenser) error {
	f := new(FundingConfig)
	h.Funding = f
	if !d.AllArgs(&f.EntityType, &f.EntityRole) {
		return wrongArgs(d, "funding")
	}
	return parseBlock(d, "funding", map[string]option{
		"repository": {parse: f.parseRepository},
		"license":    list(&f.Licenses, checkName),
		"tags":       list(&f.Tags, checkName),
	})
}

func (f *FundingConfig) parseRepository(d *caddyfile.Dispenser) error {
	switch args := d.RemainingArgs(); len(args) {
	case 1:
		f.Repository = args[0]
	case 2:
		f.Repository, f.WellKnown = args[0], args[1]
	default:
		return wrongArgs(d, "repository")
	}
	if err := checkArg(d, "repository", f.Repository, checkURL); err != nil {
		return err
	}
	return checkArg(d, "repository", f.WellKnown, checkURL)
}
