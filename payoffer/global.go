package payoffer

import (
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("pay_offer", parseGlobal)
}

// parseGlobal sets up the app from the global option.
func parseGlobal(d *caddyfile.Dispenser, existing any) (any, error) {
	d.Next() // the option's name
	if existing != nil {
		return nil, d.Err("the global option pay_offer is given twice")
	}
	app := new(App)
	if err := app.unmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "pay_offer", Value: caddyconfig.JSON(app, nil)}, nil
}

// unmarshalCaddyfile reads the global option. Syntax:
//
//	pay_offer {
//	    ledger sqlite [<path>]
//	    ledger postgres <dsn>
//	}
func (app *App) unmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return wrongArgs(d, "pay_offer")
	}
	return parseBlock(d, "the global option pay_offer", map[string]option{
		"ledger": {parse: app.parseLedger},
	})
}

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
