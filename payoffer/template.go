package payoffer

import (
	"fmt"
	"io/fs"
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
	caddy.RegisterModule(FileSystem{})
	caddy.RegisterModule(TemplateFunctions{})
}

// FileSystem contains the page of the site, offer/index.html, so that file_server and
// templates serve it without a file on disk.
type FileSystem struct{}

// CaddyModule returns the Caddy module information.
func (FileSystem) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "caddy.fs.pay_offer",
		New: func() caddy.Module { return new(FileSystem) },
	}
}

// Open opens a file of the site.
func (*FileSystem) Open(name string) (fs.File, error) { return site.FS.Open(name) }

// UnmarshalCaddyfile reads 'pay_offer'.
func (*FileSystem) UnmarshalCaddyfile(d *caddyfile.Dispenser) error { return unmarshalName(d) }

// TemplateFunctions adds the function `payOffer` to the templates handler, which returns
// the data of the page. `{{$offer := payOffer .Req}}` finds the offer whose site_url has
// the request's host.
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

// UnmarshalCaddyfile reads 'pay_offer'.
func (*TemplateFunctions) UnmarshalCaddyfile(d *caddyfile.Dispenser) error { return unmarshalName(d) }

// CustomTemplateFunctions returns the functions by name.
func (f *TemplateFunctions) CustomTemplateFunctions() template.FuncMap {
	return template.FuncMap{"payOffer": f.payOffer}
}

// payOffer returns the data of the offer whose site received the request.
func (f *TemplateFunctions) payOffer(request *http.Request) (site.Data, error) {
	for _, o := range f.app.Offers() {
		if strings.EqualFold(offer.Host(o.SiteURL), request.Host) {
			return site.NewData(o, request.URL.Query().Get("lang"), request.Header["Accept-Language"]), nil
		}
	}
	return site.Data{}, fmt.Errorf("no offer has a site_url with the host %q; set site_url to the address of this site", request.Host)
}

// unmarshalName reads the name of a module without options.
func unmarshalName(d *caddyfile.Dispenser) error {
	d.Next()
	if d.NextArg() {
		return d.ArgErr()
	}
	return nil
}

// Interface guards
var (
	_ fs.FS                     = (*FileSystem)(nil)
	_ caddyfile.Unmarshaler     = (*FileSystem)(nil)
	_ caddy.Provisioner         = (*TemplateFunctions)(nil)
	_ caddyfile.Unmarshaler     = (*TemplateFunctions)(nil)
	_ templates.CustomFunctions = (*TemplateFunctions)(nil)
)
