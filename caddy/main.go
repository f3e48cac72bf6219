// Command caddy is Caddy with the pay_offer module compiled in.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/payoffer/caddy-pay-offer/payoffer"
)

func main() {
	caddycmd.Main()
}
