// Command bare is Caddy with a handler that does as little as possible. The benchmark compares the plugin with it.
// It is in the plugin's module, so that both are built with the same versions.
package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

func init() {
	caddy.RegisterModule(Bare{})
	httpcaddyfile.RegisterHandlerDirective("bare", parse)
	httpcaddyfile.RegisterDirectiveOrder("bare", httpcaddyfile.Before, "respond")
}

// Bare writes the configured responses. The next handler answers other requests.
type Bare struct {
	// File contains the responses as a JSON object of Answer by method and path, such as "GET /pay".
	File string `json:"file"`

	answers map[string]*Answer
}

// Answer is a response without the headers Date and Server, which Caddy writes.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// CaddyModule returns the Caddy module information.
func (Bare) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.bare", New: func() caddy.Module { return new(Bare) }}
}

// parse reads "bare [<matcher>] <file>".
func parse(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	b := new(Bare)
	if h.Next(); !h.AllArgs(&b.File) {
		return nil, h.ArgErr()
	}
	return b, nil
}

// Provision reads the answers.
func (b *Bare) Provision(caddy.Context) error {
	data, err := os.ReadFile(b.File)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, &b.answers)
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (b *Bare) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	a := b.answers[r.Method+" "+r.URL.Path]
	if a == nil {
		return next.ServeHTTP(w, r)
	}
	maps.Copy(w.Header(), a.Header)
	w.WriteHeader(a.Status)
	_, err := w.Write(a.Body)
	return err
}

func main() { caddycmd.Main() }

var (
	_ caddy.Provisioner           = (*Bare)(nil)
	_ caddyhttp.MiddlewareHandler = (*Bare)(nil)
)
