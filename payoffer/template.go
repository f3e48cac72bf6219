package payoffer

import (
	"fmt"
	"net/http"
	"strings"
	"text/template"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/templates"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/site"
)

func init() {
	caddy.RegisterModule(TemplateFunctions{})
}

// TemplateFunctions adds the function `payOffer` to the templates handler: what
// a page says of the offer. `{{$offer := payOffer .Req}}` finds the offer whose
// site_url has the request's host.
type TemplateFunctions struct {
	app *App
}

// CaddyModule returns the Caddy module information.
func (TemplateFunctions) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.templates.functions.pay_offer",
		New: func() caddy.Module { return new(TemplateFunctions) },
	}
}

// Provision sets up the functions.
func (f *TemplateFunctions) Provision(ctx caddy.Context) error {
	app, err := ctx.App("pay_offer")
	if err != nil {
		return err
	}
	f.app = app.(*App)
	return f.app.addListeners(ctx)
}

// UnmarshalCaddyfile sets up the functions from Caddyfile tokens. Syntax:
//
//	pay_offer
func (f *TemplateFunctions) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	if d.NextArg() {
		return d.ArgErr()
	}
	return nil
}

// CustomTemplateFunctions returns the functions by name.
func (f *TemplateFunctions) CustomTemplateFunctions() template.FuncMap {
	return template.FuncMap{"payOffer": f.payOffer}
}

// payOffer finds the offer of the site that a request came to.
func (f *TemplateFunctions) payOffer(request *http.Request) (site.Data, error) {
	for _, o := range f.app.Offers() {
		if strings.EqualFold(offer.Host(o.SiteURL), request.Host) {
			return site.NewData(o, request.URL.Query().Get("lang"), request.Header["Accept-Language"]), nil
		}
	}
	return site.Data{}, fmt.Errorf("no offer has a site_url with the host %q; set site_url to the address of this site", request.Host)
}

// Interface guards
var (
	_ caddy.Provisioner         = (*TemplateFunctions)(nil)
	_ caddyfile.Unmarshaler     = (*TemplateFunctions)(nil)
	_ templates.CustomFunctions = (*TemplateFunctions)(nil)
)
