package payoffer

import (
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("pay_offer", parseCaddyfile)
	// Before try_files, rewrites and authentication, which would swallow the
	// offer's paths on a site that has them.
	httpcaddyfile.RegisterDirectiveOrder("pay_offer", httpcaddyfile.Before, "method")
}

func parseCaddyfile(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	handler := new(Handler)
	err := handler.UnmarshalCaddyfile(h.Dispenser)
	return handler, err
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Syntax:
//
//	pay_offer [<matcher>] {
//	    id           <id>
//	    base_url     <origin>
//	    site_url     <origin>
//	    name         <text>
//	    operator     <text>
//	    description  <text>
//	    contact      <mailbox>
//	    source_url   <url>
//	    account      <name>
//	    amount       <usd>
//	    ignore_payer <address>
//	    rate_limit   <attempts> <window>
//	    testnet
//
//	    card <url> {
//	        methods        <names...>
//	        payment_link   <id>
//	        webhook_secret <secret>
//	        api_key        <secret>
//	        test_mode
//	    }
//	    usdc <network> <address> {
//	        facilitator <url> {
//	            key_id     <id>
//	            key_secret <secret>
//	            timeout    <duration>
//	        }
//	        rpc        <urls...>|off
//	        confirm    latest|safe|finalized
//	        from_block <number>
//	    }
//	    bitcoin <address>|<extended public key> {
//	        esplora       <urls...>|off
//	        rates         <sources...>
//	        confirmations <number>
//	    }
//	    bank_transfer [<name>] <mailbox> {
//	        memo <text>
//	    }
//	    storefront <name> <url> {
//	        hook_secret <secret>
//	        seller      <id>
//	        product     <id>
//	        token       <secret>
//	    }
//	    announce <url> {
//	        secret <secret>
//	    }
//	    funding <entity type> <entity role> {
//	        repository <url> [<list of manifests>]
//	        license    <licenses...>
//	        tags       <tags...>
//	    }
//	}
//
// base_url and card are required. ignore_payer, usdc, facilitator, storefront
// and announce may be repeated.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if d.NextArg() {
		return wrongArgs(d, "pay_offer")
	}
	err := parseBlock(d, "pay_offer", map[string]option{
		"id":            text(&h.ID, checkID),
		"base_url":      text(&h.BaseURL, checkOrigin),
		"site_url":      text(&h.SiteURL, checkOrigin),
		"name":          text(&h.Name, checkName),
		"operator":      text(&h.Operator, checkName),
		"description":   text(&h.Description, checkDescription),
		"contact":       text(&h.Contact, checkMailbox),
		"source_url":    text(&h.SourceURL, checkURL),
		"account":       text(&h.Account, offer.CheckAccount),
		"amount":        text(&h.Amount, checkAmount),
		"ignore_payer":  repeated(&h.IgnorePayers, checkEVMAddress),
		"testnet":       flag(&h.Testnet),
		"rate_limit":    {parse: h.parseRateLimit},
		"card":          {parse: h.parseCard},
		"usdc":          {parse: h.parseUSDC, repeats: true},
		"bitcoin":       {parse: h.parseBitcoin},
		"bank_transfer": {parse: h.parseBankTransfer},
		"storefront":    {parse: h.parseStorefront, repeats: true},
		"announce":      {parse: h.parseAnnounce, repeats: true},
		"funding":       {parse: h.parseFunding},
	})
	switch {
	case err != nil:
		return err
	case h.BaseURL == "":
		return d.Err("base_url is missing; add 'base_url <origin>', the address at which this offer is reached")
	case h.Card == nil:
		return d.Err("card is missing; add 'card <url>', the address of the card checkout")
	}
	return nil
}

func (h *Handler) parseRateLimit(d *caddyfile.Dispenser) error {
	var attempts, window string
	if !d.AllArgs(&attempts, &window) {
		return wrongArgs(d, "rate_limit")
	}
	h.RateLimit = new(RateLimitConfig)
	n, err := strconv.Atoi(attempts)
	if err != nil || n < 1 || n > maxAttempts {
		return d.Errf("rate_limit: %q is not a whole number from 1 to %d", attempts, maxAttempts)
	}
	h.RateLimit.Attempts = n
	return parseDuration(d, "rate_limit", window, &h.RateLimit.Window)
}

// Interface guards
var (
	_ caddyfile.Unmarshaler = (*Handler)(nil)
)
