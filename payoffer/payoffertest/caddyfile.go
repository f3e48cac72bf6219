package payoffertest

import (
	"regexp"
	"strings"
)

// EditCaddyfile returns the shipped Caddyfile with other lines, as an operator edits it: a
// line replaces those of its option, or is added to pay_offer. Of two lines with one option
// the last counts. `usdc base-sepolia ""` leaves a payment method out.
func EditCaddyfile(text string, lines ...string) string {
	last := map[string]string{}
	var options []string
	for _, line := range lines {
		words := strings.Fields(line)
		option := words[0]
		if option == "storefront" || option == "announce" {
			option += " " + words[1]
		}
		if _, again := last[option]; !again {
			options = append(options, option)
		}
		last[option] = line
	}
	for _, option := range options {
		written := regexp.MustCompile(`(?m)^\t+` + regexp.QuoteMeta(option) + `( .*)?$`)
		if !written.MatchString(text) {
			text = strings.Replace(text, "\tpay_offer {\n", "\tpay_offer {\n\t\t"+option+"\n", 1)
		}
		text = written.ReplaceAllLiteralString(text, last[option])
	}
	return text
}
