package payoffer

import (
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("pay_offer", parseGlobal)
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
//	    <option> <arguments...>
//	    <rail> <arguments...> {
//	        <option> <arguments...>
//	    }
//	}
//
// The options are those of the JSON configuration, one a line. What is a list
// there and named in the singular here may be repeated.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return endedByVariable(d, discreet(h.parse(d)))
}

func (h *Handler) parse(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if d.NextArg() {
		return wrongArgs(d, "pay_offer")
	}
	options, written := h.options(), 0
	base := options["base_url"].parse
	options["base_url"] = option{parse: func(d *caddyfile.Dispenser) error {
		written = d.Line()
		return base(d)
	}}
	err := options.parse(d, "pay_offer")
	switch {
	case err != nil:
		return err
	case h.BaseURL == "":
		return d.Errf("base_url is missing; add 'base_url <origin>', the address at which this offer is reached%s", unset(d, written))
	case h.Card == nil:
		return d.Err("card is missing; add 'card <url>', the address of the card checkout")
	}
	return nil
}

// options are those of the directive.
func (h *Handler) options() block {
	return block{
		"id":            text(&h.ID, checkID),
		"base_url":      text(&h.BaseURL, checkOrigin),
		"site_url":      text(&h.SiteURL, checkOrigin),
		"name":          text(&h.Name, checkName),
		"operator":      text(&h.Operator, checkName),
		"description":   text(&h.Description, checkDescription),
		"contact":       text(&h.Contact, checkMailbox),
		"source_url":    text(&h.SourceURL, checkURL),
		"account":       text(&h.Account, checkAccount),
		"amount":        text(&h.Amount, checkAmount),
		"ignore_payer":  repeated(&h.IgnorePayers, checkEVMAddress),
		"testnet":       flag(&h.Testnet),
		"recommend":     text(&h.Recommend, checkRecommended),
		"logo":          text(&h.Logo, checkLogo),
		"thanks":        text(&h.Thanks, checkDescription),
		"refunds":       text(&h.Refunds, checkDescription),
		"legal":         list(&h.Legal, checkMemo),
		"goal":          text(&h.Goal, checkAmount),
		"tags":          list(&h.Tags, checkTag),
		"mpp":           text(&h.MPP, checkMPP),
		"rate_limit":    {parse: h.parseRateLimit, resolve: h.resolveRateLimit},
		"card":          {parse: h.parseCard, resolve: h.resolveCard},
		"usdc":          {parse: h.parseUSDC, resolve: h.resolveUSDC, repeats: true},
		"bitcoin":       {parse: h.parseBitcoin, resolve: h.resolveBitcoin},
		"bank_transfer": {parse: h.parseBankTransfer, resolve: h.resolveBankTransfer},
		"storefront":    {parse: h.parseStorefront, resolve: h.resolveStorefronts, repeats: true},
		"announce":      {parse: h.parseAnnounce, resolve: h.resolveAnnounce, repeats: true},
	}
}

// parseGlobal sets up the app from the global option.
func parseGlobal(d *caddyfile.Dispenser, existing any) (any, error) {
	d.Next() // the option's name
	if existing != nil {
		return nil, d.Err("the global option pay_offer is given twice")
	}
	if d.NextArg() {
		return nil, wrongArgs(d, globalOption)
	}
	app := new(App)
	ledger := option{parse: app.parseLedger}
	if err := (block{"ledger": ledger}).parse(d, globalOption); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "pay_offer", Value: caddyconfig.JSON(app, nil)}, nil
}

// parseLedger reads the line of the ledger. Syntax:
//
//	ledger sqlite [<path>]
//	ledger postgres <dsn>
func (app *App) parseLedger(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 {
		return wrongArgs(d, "ledger")
	}
	app.Ledger = &LedgerConfig{Driver: args[0]}
	switch {
	case len(args) == 2 && args[0] == driverPostgres:
		app.Ledger.DSN = args[1]
	case len(args) == 2:
		app.Ledger.Path = args[1]
	}
	if err := app.Ledger.check(); err != nil {
		return d.Err(err.Error())
	}
	return nil
}

// Interface guards
var (
	_ caddyfile.Unmarshaler = (*Handler)(nil)
)
