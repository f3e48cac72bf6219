package payoffer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// demo are the values with which the shipped Caddyfile starts: valid, and
// obviously nobody's. Beside each stand the option and the environment
// variable that replaces it.
var demo = []struct{ value, option, variable string }{
	{"http://localhost:8403", "site_url", "SITE_URL"},
	{"https://checkout.example/pay-42", "card", "CARD_URL"},
	{"0x000000000000000000000000000000000000dEaD", "usdc", "USDC_ADDRESS"},
	{"tb1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq0l98cr", "bitcoin", "BTC_ADDRESS"},
	{"invoices@example.com", "bank_transfer", "TRANSFER_INBOX"},
	{"https://tip-jar.example/42", "storefront tip-jar", "TIP_JAR_URL"},
	{"https://pack.example/42", "storefront pack", "PACK_URL"},
}

// checkDemo refuses a public offer that still holds demo addresses, or test
// networks that nobody asked for: money would go nowhere.
func checkDemo(o *offer.Offer, testnet bool) error {
	if !publicHost(o.BaseURL) {
		return nil
	}
	missing := demoOptions(o)
	if !publicHost(o.SiteURL) && !slices.Contains(missing, "site_url (SITE_URL)") {
		missing = append(missing, "site_url is "+o.SiteURL+", which only this machine reaches (SITE_URL)")
	}
	if !testnet {
		missing = append(missing, testNetworks(o)...)
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%s is public, but these options still hold demo or test values; set them to your own "+
		"(in parentheses: the environment variable of the shipped Caddyfile; an empty address leaves its rail out):\n  - %s",
		o.BaseURL, strings.Join(missing, "\n  - "))
}

// demoOptions names the options that hold a demo value.
func demoOptions(o *offer.Offer) []string {
	held := []string{o.SiteURL}
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
			found = append(found, "usdc is on the test network "+u.Network.Name+" (USDC_NETWORK), or add the option 'testnet' if that is meant")
		}
	}
	if b := o.Bitcoin(); b != nil && b.Test() {
		found = append(found, "bitcoin is on a test network (BTC_ADDRESS), or add the option 'testnet' if that is meant")
	}
	return found
}
