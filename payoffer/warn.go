package payoffer

import (
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
)

// literalSecrets is logged with the names of the options.
const literalSecrets = "secrets stand in the configuration itself, where 'caddy adapt', the admin API, Caddy's saved configuration and, at level DEBUG, " +
	"its log show them; write {env.NAME} or {file.PATH}"

// warn logs, one line each, what is allowed and yet likely a mistake, and what the
// operator alone can compare.
func (app *App) warn(s *service.Service, r *resolver) {
	logger := app.logger.With(zap.String("offer", s.Offer.ID))
	if s.Offer.Demo {
		logger.Warn("this is a demo: its checkout, its facilitator and its money are pretend, and forgotten when the server stops",
			zap.String("checkout", s.Offer.Card.URL))
		return
	}
	// A public offer with demo addresses is refused.
	if options := demoOptions(s.Offer); len(options) > 0 && !publicHost(s.Offer.BaseURL) {
		logger.Warn("demo addresses are in use: nobody receives what is paid to them; set your own before you show this to anyone",
			zap.Strings("options", options))
	}
	if len(r.off) > 0 {
		logger.Warn("secrets without a value: their features are off", zap.Strings("options", r.off), zap.Strings("unset", r.unset))
	}
	if len(r.literal) > 0 {
		logger.Warn(literalSecrets, zap.Strings("options", r.literal))
	}
	if contract, _ := offer.ParseUSD(defaultAmount); s.Offer.Amount != contract {
		logger.Warn("the amount is not 42: clients that know the interface expect 42 USD", zap.Stringer("amount", s.Offer.Amount))
	}
	if s.Offer.Card.Test() {
		logger.Warn("the card checkout is in test mode: whoever pays there pays nothing, and the pages say so; before you sell, give card the address of "+
			"a live one, without test_mode", zap.String("host", offer.Host(s.Offer.Card.URL)))
	}
	for _, a := range s.Announce {
		if hook, is := a.(announce.Webhook); is && strings.Join(hook.Secrets, "") == "" {
			logger.Warn("announcements are not signed: their receiver cannot tell them from forged ones; give announce a secret",
				zap.String("host", offer.Host(hook.URL)))
		}
	}
	s.Warn(app.ctx.Slogger().With("offer", s.Offer.ID))
	if size := s.Server.LargestHead(); size > web.MaxHead {
		logger.Warn("the headers of a quote are larger than a proxy in front takes by default: nginx reads them into a buffer of 4 KB and answers "+
			"502 above that; write 'proxy_buffer_size 8k;' there, or shorten card or base_url or take a usdc line out", zap.Int("bytes", size))
	}
}

// demo are the values with which the shipped Caddyfile starts: valid, and
// obviously nobody's. Beside each stand the option and the environment
// variable that replaces it.
var demo = []demoValue{
	{"http://localhost:8403", "site_url", "SITE_URL"},
	{"https://checkout.example/pay-42", "card", "CARD_URL"},
	{"0x000000000000000000000000000000000000dEaD", "usdc", "USDC_ADDRESS"},
	{"tb1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq0l98cr", "bitcoin", "BTC_ADDRESS"},
	{"invoices@example.com", "bank_transfer", "TRANSFER_INBOX"},
	{"https://tip-jar.example/42", "storefront tip-jar", "TIP_JAR_URL"},
	{"https://pack.example/42", "storefront pack", "PACK_URL"},
}

type demoValue struct{ value, option, variable string }

// checkDemo refuses a public offer that still holds demo addresses, or test
// networks and a test checkout that nobody asked for: money would go nowhere, and
// payers believe that they have paid.
func checkDemo(o *offer.Offer, testnet, testMode bool) error {
	if !publicHost(o.BaseURL) {
		return nil
	}
	if address := publicKey(o); address != "" {
		return fmt.Errorf("%s belongs to a published test key, so that anybody could take the money; write an address of your own wallet", address)
	}
	missing := demoOptions(o)
	if !publicHost(o.SiteURL) && !slices.Contains(missing, "site_url (SITE_URL)") {
		missing = append(missing, "site_url is "+o.SiteURL+", which only this machine reaches (SITE_URL)")
	}
	if !testnet {
		missing = append(missing, testNetworks(o)...)
	}
	if o.Card.Test() && !testMode && !testnet {
		missing = append(missing, "card is a test checkout, at which nobody pays (CARD_URL), or add the option 'test_mode' to it (CARD_TEST_MODE=on) if that is meant")
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s is public, but these options still hold demo or test values; set them to your own "+
		"(in parentheses: the environment variable of the shipped Caddyfile; an empty address leaves its rail out):\n  - %s",
		o.BaseURL, strings.Join(missing, "\n  - "))
}

// publicKeys are the first addresses of well-known test keys. Of an extended key its first
// address is compared, so that each spelling of the key is found.
var publicKeys = []string{
	// The mnemonic "abandon … about": BIP-84, 86, 49 and 44; the account keys of the last
	// three at the P2WPKH addresses that would be published; BIP-44 of Ethereum.
	"bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu",
	"bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr",
	"37VucYSaXLCAsxYyAPfbSi9eh4iEcbShgf",
	"1LqBGSKuX5yYUonjxT5qGfpUsXKYYWeabA",
	"bc1qalwlmdxd2ggue4290ekzxl9tetg56neexr6amw",
	"bc1qlxgx0xk2lcjuyas4xua5p0ezg3kjfl6yd3h8y6",
	"bc1qmxrw6qdh5g3ztfcwm0et5l8mvws4eva24kmp8m",
	"0x9858EfFD232B4033E47d90003D41EC34EcaEda94",
	// Accounts 0 to 4 of Hardhat and Anvil.
	"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
	"0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
	"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
	"0x90F79bf6EB2c4f870365E785982E1f101E93b906",
	"0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65",
	// The examples of EIP-55.
	"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
	"0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
	"0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
	"0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
}

// publicKey returns the first address of the offer that is one of publicKeys, or "".
func publicKey(o *offer.Offer) string {
	for _, address := range addresses(o) {
		if slices.Contains(publicKeys, address) {
			return address
		}
	}
	return ""
}

// addresses are those to which the offer has money sent.
func addresses(o *offer.Offer) []string {
	var held []string
	for _, rail := range o.Rails {
		for _, m := range rail.Methods(o, offer.Live{}) {
			held = append(held, m.URL, m.PayTo)
		}
	}
	if b := o.Bitcoin(); b != nil {
		// Without a rate its method has no address yet.
		if address, err := b.Address(0); err == nil {
			held = append(held, address)
		}
	}
	return held
}

// demoOptions names the options that hold a demo value.
func demoOptions(o *offer.Offer) []string {
	held := append(addresses(o), o.SiteURL)
	var options []string
	for _, d := range demo {
		if slices.Contains(held, d.value) {
			options = append(options, d.option+" ("+d.variable+")")
		}
	}
	return options
}

func testNetworks(o *offer.Offer) []string {
	var found []string
	for _, u := range o.USDC() {
		if u.Network.Test {
			found = append(found, "usdc is on the test network "+u.Network.Name+" (USDC_NETWORK), or add the option 'testnet' (TESTNET=on) if that is meant")
		}
	}
	if b := o.Bitcoin(); b != nil && b.Test() {
		found = append(found, "bitcoin is on a test network (BTC_ADDRESS), or add the option 'testnet' (TESTNET=on) if that is meant")
	}
	return found
}
