package payoffer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"text/template"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/encode"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/fileserver"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/rewrite"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/templates"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/site"
)

func init() {
	caddy.RegisterModule(TemplateFunctions{})
	httpcaddyfile.RegisterDirective("pay_offer_page", parsePage)
	httpcaddyfile.RegisterDirectiveOrder("pay_offer_page", httpcaddyfile.Before, "method")
}

// pageFileSystem is the name under which the app registers the embedded site.
const pageFileSystem = "pay_offer"

// parsePage expands pay_offer_page to the routes that serve the embedded page at /offer/.
// Syntax:
//
//	pay_offer_page
//
// The result of a template has no byte ranges and no validators, so these request headers
// are removed, and a HEAD request is rendered as GET.
func parsePage(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	h.Next() // the directive's name
	if h.NextArg() || h.NextBlock(0) {
		return nil, h.Err("pay_offer_page takes no arguments and no block; write only the directive, which serves /offer/ of this site")
	}
	return h.NewRoute(caddy.ModuleMap{"path": h.JSON(caddyhttp.MatchPath{"/offer", "/offer/*"})}, &caddyhttp.Subroute{
		Routes: caddyhttp.RouteList{
			{
				MatcherSetsRaw: caddyhttp.RawMatcherSets{{"method": h.JSON(caddyhttp.MatchMethod{http.MethodHead})}},
				HandlersRaw: []json.RawMessage{
					caddyconfig.JSONModuleObject(rewrite.Rewrite{Method: http.MethodGet}, "handler", "rewrite", nil),
				},
			},
			{HandlersRaw: []json.RawMessage{
				caddyconfig.JSONModuleObject(encode.Encode{
					EncodingsRaw: caddy.ModuleMap{"gzip": h.JSON(struct{}{})}, Prefer: []string{"gzip"},
				}, "handler", "encode", nil),
				caddyconfig.JSONModuleObject(headers.Handler{
					Request: &headers.HeaderOps{Delete: []string{"Range", "If-*"}},
				}, "handler", "headers", nil),
				caddyconfig.JSONModuleObject(templates.Templates{
					ExtensionsRaw: caddy.ModuleMap{"pay_offer": h.JSON(TemplateFunctions{})},
				}, "handler", "templates", nil),
				caddyconfig.JSONModuleObject(fileserver.FileServer{FileSystem: pageFileSystem, Root: "."}, "handler", "file_server", nil),
			}},
		},
	}), nil
}

// TemplateFunctions adds the function `payOffer` to the templates handler, which returns
// the data of the page. `{{$offer := payOffer .Req}}` finds the offer whose site_url has
// the request's host, or the only one.
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
func (t *TemplateFunctions) Provision(ctx caddy.Context) error {
	app, err := ctx.App("pay_offer")
	if err != nil {
		return err
	}
	t.app = app.(*App)
	return t.app.addListeners(ctx)
}

// UnmarshalCaddyfile reads 'pay_offer'.
func (*TemplateFunctions) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	return arguments(d, d.Val())
}

// CustomTemplateFunctions returns the functions by name.
func (t *TemplateFunctions) CustomTemplateFunctions() template.FuncMap {
	return template.FuncMap{"payOffer": t.payOffer}
}

// payOffer returns the data of the offer whose site received the request.
func (t *TemplateFunctions) payOffer(request *http.Request) (site.Data, error) {
	offers := t.app.Offers()
	for _, o := range offers {
		if len(offers) == 1 || strings.EqualFold(offer.Host(o.SiteURL), request.Host) {
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
