// Package page renders the pages for browsers from their templates, styles, scripts and
// texts. Package web gives it the content and serves the result.
package page

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/site"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

//go:embed *.html *.css *.js
var files embed.FS

// The pages.
var (
	Pay      = newSheet("pay", "copy", "quote", "rows", "wallet", "launch", "came", "arrive")
	Transfer = newSheet("transfer", "copy", "rows", "came", "arrive")
	Received = newSheet("received", "live", "arrive")
	Thanks   = newSheet("thanks", "live", "arrive", "paid")
	Sponsor  = newSheet("sponsor")
	// Gate is the page of a gated route. It is on another host than the others, so that it
	// has a layout without links to its own host.
	Gate = newSheet("gate")
	// Replace is the page of a gated route that asks whether a link may replace the payment of the browser.
	Replace = newSheet("replace")
	Problem = newSheet("error")
	Receipt = newSheet("receipt", "print", "copy")
	// Pending is a Receipt that may still change.
	Pending = newSheet("receipt", "print", "copy", "live", "arrive")
)

// WalletScript pays from a wallet in the browser. The pay page loads it from WalletPath,
// which contains its hash, so that caches keep it for ever.
var (
	WalletScript = source("wallet.js")
	WalletPath   = fmt.Sprintf("%s/wallet.%.8x.js", offer.PathMethods, sha256.Sum256([]byte(WalletScript)))
	walletHash   = strings.Trim(site.Source(WalletScript), "'")
)

// Sheet is the template of one page with its style and scripts.
type Sheet struct {
	template *template.Template
	layout   string
	names    []string // of the scripts, and of the groups of texts that they use
	scripts  []template.JS
	style    template.CSS
	policy   string // Content-Security-Policy
}

// newSheet makes a page of its template and scripts. Each may have a style of its own name.
// The page may load images and its wallet script from its own host, and runs nothing else
// but the inlined scripts (CSP Level 3). The icons of wallets are data: URIs.
func newSheet(name string, scripts ...string) *Sheet {
	s := &Sheet{names: scripts, layout: "layout.html", template: template.Must(template.ParseFS(files, "layout.html", "parts.html", "wallet.html", "arrive.html", "gate.html", name+".html"))}
	forms := "'none'"
	switch name {
	case "gate", "replace":
		s.layout = "gate.html"
	case "receipt", "pay":
		forms = "'self'"
	}
	style := site.Style + source("page.css")
	for _, part := range append([]string{name}, scripts...) {
		if own, err := files.ReadFile(part + ".css"); err == nil {
			style += string(own)
		}
	}
	s.style, s.policy = template.CSS(style), "default-src 'none'; img-src 'self'; style-src "+site.Source(style)
	allowed := ""
	for _, name := range scripts {
		if name != "wallet" {
			script := source(name + ".js")
			s.scripts, allowed = append(s.scripts, template.JS(script)), allowed+" "+site.Source(script)
		}
	}
	if slices.Contains(scripts, "wallet") {
		s.policy = strings.Replace(s.policy, "img-src 'self'", "img-src 'self' data:", 1)
		allowed += " 'self'"
	}
	if allowed != "" {
		s.policy += "; script-src" + allowed + "; connect-src 'self'"
	}
	s.policy += "; base-uri 'none'; form-action " + forms + "; frame-ancestors 'none'"
	return s
}

func source(file string) string {
	data, err := files.ReadFile(file)
	if err != nil {
		panic(err) // the file is embedded
	}
	return string(data)
}

// Frame is what every page has around its content.
type Frame struct {
	Offer    *offer.Offer
	Language *text.Language
	// Chosen reports whether the URL names the language. Links to other pages then name it too.
	Chosen bool
	// Path is the path of the page. A page without a path is not indexed and has no preview.
	Path string
	// Query are the page's parameters in addition to the language.
	Query url.Values
	// Paid reports whether the reader has paid or may have. The page then links to no way to pay.
	Paid bool
}

// Page is a rendered page.
type Page struct {
	Body     []byte
	Policy   string // Content-Security-Policy
	Language string // tag
}

// Render renders a page. title is the title of the window; content is Content in the page's template.
func (s *Sheet) Render(f Frame, title string, content any) Page {
	var body bytes.Buffer
	v := view{f, s, title, content}
	if err := s.template.ExecuteTemplate(&body, s.layout, v); err != nil {
		panic("page: " + err.Error()) // a template that does not match its data; tests render every page
	}
	styles := "style-src " + site.Source(string(v.Brand())) + " "
	if f.Offer.Style != "" {
		styles += f.Offer.BaseURL + " "
	}
	policy := strings.Replace(s.policy, "style-src ", styles, 1)
	if s.layout == "gate.html" { // on another host than the logo
		policy = strings.Replace(policy, "img-src 'self'", "img-src data: "+f.Offer.BaseURL, 1)
	}
	return Page{bytes.Map(dropDirection, body.Bytes()), policy, f.Language.Tag}
}

// dropDirection drops the characters that change the direction of the text after them
// (UAX #9): an operator's or a wallet's text could reorder the page with them.
func dropDirection(r rune) rune {
	if ('\u202a' <= r && r <= '\u202e') || ('\u2066' <= r && r <= '\u2069') {
		return -1
	}
	return r
}

// view is the data of a template.
type view struct {
	Frame
	sheet   *Sheet
	Title   string
	Content any
}

// T is the text of a key with its values, given as pairs of name and value.
func (v view) T(key string, pairs ...any) string { return v.Language.Text(key, pairs...) }

func (v view) Number(decimal string) string { return v.Language.Number(decimal) }
func (v view) Say(p offer.Phrase) string    { return v.Language.Say(p) }
func (v view) Fact(f offer.Fact) string     { return v.Language.Text("fact." + f.Label) }
func (v view) Demo() bool                   { return site.Demo(v.Offer) }
func (v view) Canonical() string            { return v.Offer.URL(v.Link(v.Path)) }
func (view) Languages() []*text.Language    { return text.Languages }
func (v view) Style() template.CSS          { return v.sheet.style }
func (v view) Scripts() []template.JS       { return v.sheet.scripts }
func (v view) JSONLD() site.JSONLD          { return site.NewJSONLD(v.Offer) }
func (v view) Payee() string                { return cmp.Or(v.Offer.Operator, v.Offer.Name) }
func (v view) Initial() string              { return site.Initial(v.Payee()) }
func (v view) Host() string                 { return offer.Host(v.Offer.BaseURL) }
func (v view) HomeHost() string             { return offer.Host(v.Offer.Home) }
func (v view) Brand() template.CSS          { return template.CSS(site.Brand(v.Offer)) }
func (v view) Lead() string                 { return v.Language.Lead(v.Offer) }
func (v view) Logo() string                 { return strings.TrimPrefix(v.Offer.Logo, v.Offer.BaseURL) }
func (v view) Icon() template.URL           { return template.URL(site.Icon(v.Offer)) }

// Legal are the seller's legal lines in one, on pages before a payment. A receipt has them in its own list.
func (v view) Legal() string {
	if v.Paid {
		return ""
	}
	return strings.Join(v.Offer.Legal, " · ")
}

// part is the data of a template that several pages include.
type part struct {
	View view
	Data any
	Alt  string
}

// Part is the data for such a template: what it shows, and the text for those who cannot see it.
func (v view) Part(data any, alt ...string) part { return part{v, data, strings.Join(alt, "")} }

// Wallet is the path of the wallet script, empty if the page has no rail for it.
func (v view) Wallet() string {
	if !slices.Contains(v.sheet.names, "wallet") || len(v.Offer.USDC()) == 0 {
		return ""
	}
	return WalletPath
}

// WalletHash is the hash of the wallet script, without which browsers do not run it.
func (view) WalletHash() string { return walletHash }

// Link is the address of another page of the service, in the same language.
func (f Frame) Link(address string) string {
	u, err := url.Parse(address)
	if !f.Chosen || err != nil {
		return address
	}
	query := u.Query()
	query.Set("lang", f.Language.Tag)
	u.RawQuery = query.Encode()
	return u.String()
}

// In is the address of the same page in another language.
func (v view) In(l *text.Language) string {
	query := url.Values{"lang": {l.Tag}}
	maps.Copy(query, v.Query)
	return "?" + query.Encode()
}

// Texts are the texts of the scripts, by script and key.
func (v view) Texts() map[string]map[string]string {
	texts := make(map[string]map[string]string)
	for _, name := range v.sheet.names {
		if name != "wallet" || v.Wallet() != "" {
			texts[name] = v.Language.Group(name)
		}
	}
	return texts
}
