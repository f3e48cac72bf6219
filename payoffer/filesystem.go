package payoffer

import (
	"io/fs"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/payoffer/caddy-pay-offer/payoffer/site"
)

func init() {
	caddy.RegisterModule(FileSystem{})
}

// FileSystem holds the page for people, so that file_server and templates
// serve it without a file on disk. Its one page is offer/index.html.
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

// UnmarshalCaddyfile sets up the file system from Caddyfile tokens. Syntax:
//
//	pay_offer
func (f *FileSystem) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the module's name
	if d.NextArg() {
		return d.ArgErr()
	}
	return nil
}

// Interface guards
var (
	_ fs.FS                 = (*FileSystem)(nil)
	_ caddyfile.Unmarshaler = (*FileSystem)(nil)
)
