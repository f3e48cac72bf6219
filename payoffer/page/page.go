// Package page is how pages for people look: their templates, style and scripts,
// in every language. What they say of an offer is given to them; package web
// serves them.
package page

import (
	"bytes"
	"cmp"
	"embed"
	"html/template"
	"maps"
	"net/url"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/site"
	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

//go:embed *.html *.css *.js
var files embed.FS

// The pages.
var (
	Pay      = newSheet("pay", "copy", "quote", "rows", "wallet", "came", "arrive")
	Transfer = newSheet("transfer", "copy", "rows")
	Received = newSheet("received", "live", "arrive")
	Thanks   = newSheet("thanks", "live", "arrive")
	Sponsor  = newSheet("sponsor")
	Problem  = newSheet("error")
	Receipt  = newSheet("receipt", "print")
	// Pending is a Receipt that may still change.
	Pending = newSheet("receipt", "print", "live", "arrive")
)

// style is that of every page.
var style = dense(site.Style + source("page.css"))

// Sheet is one page, to be filled in.
type Sheet struct {
	template *template.Template
	// names are those of the scripts, and of the groups of texts that they say.
	names   []string
	scripts []template.JS
	style   template.CSS
	policy  string
}

// newSheet makes a page of its template and scripts, all by their names. Each may
// have a style of its own, which is in no other page.
func newSheet(name string, scripts ...string) *Sheet {
	s := &Sheet{names: scripts, template: template.Must(template.ParseFS(files, "layout.html", "parts.html", "wallet.html", "arrive.html", name+".html"))}
	// A page loads nothing but images of its own host, asks nobody but its own
	// host, and runs nothing but the scripts that it carries (CSP Level 3). JSON
	// is data and needs no permission.
	all := style
	for _, part := range append([]string{name}, scripts...) {
		if own, err := files.ReadFile(part + ".css"); err == nil {
			all += dense(string(own))
		}
	}
	var hashes []string
	for _, name := range scripts {
		script := tight.Replace(lean(source(name + ".js")))
		s.scripts, hashes = append(s.scripts, template.JS(script)), append(hashes, site.Source(script))
	}
	s.style, s.policy = template.CSS(all), "default-src 'none'; img-src 'self'; style-src "+site.Source(all)
	if len(hashes) > 0 {
		s.policy += "; script-src " + strings.Join(hashes, " ") + "; connect-src 'self'"
	}
	s.policy += "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return s
}

func source(file string) string {
	data, err := files.ReadFile(file)
	if err != nil {
		panic(err) // the file is embedded
	}
	return string(data)
}

// lean is a script or a style without what only its readers need: indents and
// comments. No text in them goes over several lines or holds what begins a comment.
func lean(source string) string {
	var out strings.Builder
	for line := range strings.Lines(source) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "// ")
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "/* ") {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}

// tight leaves out of a lean script the line breaks and spaces that separate
// nothing. No text in a script that must keep its spaces has any of these.
var tight = strings.NewReplacer(
	" {\n", "{", "{\n", "{", "(\n", "(", ",\n", ",", ";\n}", "}", ";\n", ";", "\n}", "}", ", ", ",", "; ", ";", " { ", "{", "{ ", "{", "; }", "}", " }", "}", ": ", ":",
	"if (", "if(", " => ", "=>", " = ", "=", " === ", "===", " && ", "&&", " || ", "||", " ?? ", "??", " ? ", "?", " : ", ":", " + ", "+", " - ", "-", " < ", "<", " > ", ">",
)

// dense is a lean style without the spaces that separate nothing.
func dense(source string) string {
	return strings.NewReplacer(
		" { ", "{", " {\n", "{", "; }\n", "}", ";\n}\n", "}", "; }", "}", "; ", ";", ";\n", ";", "}\n", "}", ": ", ":", ", ", ",", " > ", ">", " + ", "+",
	).Replace(lean(source))
}

// Frame is what is around every page.
type Frame struct {
	Offer    *offer.Offer
	Language *text.Language
	// Chosen says that the language stands in the page's address, so that the
	// links to other pages carry it on.
	Chosen bool
	// Path is the page's own. Without one it is a page that nobody should come back
	// to, and that nothing may keep or preview.
	Path string
	// Query are the parameters beside the language that the page follows, so that
	// it stays the same page in another language.
	Query url.Values
}

// Page is a rendered page.
type Page struct {
	Body []byte
	// Policy is its Content-Security-Policy.
	Policy string
	// Language is the tag of the language that it is in.
	Language string
}

// Render fills a page in. title is that of the window; content is what the page's
// own template shows, as its Content.
func (s *Sheet) Render(f Frame, title string, content any) Page {
	var body bytes.Buffer
	if err := s.template.ExecuteTemplate(&body, "layout.html", view{f, s, title, content}); err != nil {
		panic("page: " + err.Error()) // a template that does not fit its data; every page is tested
	}
	return Page{bytes.Map(upright, body.Bytes()), s.policy, f.Language.Tag}
}

// upright leaves out the characters that turn the direction of what follows them,
// with which a text could change how the words around it read (UAX #9, explicit
// directional formatting). Other text keeps its own direction without them.
func upright(r rune) rune {
	if ('\u202a' <= r && r <= '\u202e') || ('\u2066' <= r && r <= '\u2069') {
		return -1
	}
	return r
}

// view is what a template sees.
type view struct {
	Frame
	sheet   *Sheet
	Title   string
	Content any
}

// T is the text of a key, filled with pairs of a name and a value.
func (v view) T(key string, pairs ...any) string { return v.Language.Text(key, pairs...) }

// Number is a decimal number as the page's language writes it.
func (v view) Number(decimal string) string { return v.Language.Number(decimal) }

// Say is a phrase in the page's language.
func (v view) Say(p offer.Phrase) string { return v.Language.Say(p) }

// Fact is the name of a fact.
func (v view) Fact(f offer.Fact) string { return v.Language.Text("fact." + f.Label) }

// Facts are facts for the template that lists them.
func (v view) Facts(facts []offer.Fact) any {
	return struct {
		View  view
		Facts []offer.Fact
	}{v, facts}
}

// Wallet is a rail for the template that has a wallet in the browser pay it.
func (v view) Wallet(rail any) any {
	return struct {
		View view
		Rail any
	}{v, rail}
}

// Code is a QR code for the template that shows it: its address, and what it is
// a picture of.
func (v view) Code(source, shows string) any {
	return struct {
		View          view
		Source, Shows string
	}{v, source, shows}
}

// Logo is the path of the operator's image, which is on the page's own host, or
// empty.
func (v view) Logo() string { return strings.TrimPrefix(v.Offer.Logo, v.Offer.BaseURL) }

// Operator is the operator's name for the end of a sentence, whose full stop it may
// have.
func (v view) Operator() string { return strings.TrimSuffix(v.Offer.Operator, ".") }

// Payee is who is paid: the operator, or the offer's name.
func (v view) Payee() string { return cmp.Or(v.Offer.Operator, v.Offer.Name) }

// Demo says that the offer's checkout does not exist.
func (v view) Demo() bool { return site.Demo(v.Offer) }

// Link is the address of another page of ours, in the same language.
func (v view) Link(address string) string {
	if !v.Chosen {
		return address
	}
	address, fragment, cut := strings.Cut(address, "#")
	separator := "?"
	if strings.Contains(address, "?") {
		separator = "&"
	}
	address += separator + "lang=" + v.Language.Tag
	if cut {
		address += "#" + fragment
	}
	return address
}

// In is the address of the same page in another language.
func (v view) In(l *text.Language) string {
	query := url.Values{"lang": {l.Tag}}
	maps.Copy(query, v.Query)
	return "?" + query.Encode()
}

// Canonical is the page's absolute address.
func (v view) Canonical() string { return v.Offer.URL(v.Link(v.Path)) }

// Languages are those that the page can be had in.
func (view) Languages() []*text.Language { return text.Languages }

// Style, Scripts, Texts and JSONLD are what is inlined.
func (v view) Style() template.CSS    { return v.sheet.style }
func (v view) Scripts() []template.JS { return v.sheet.scripts }
func (v view) JSONLD() site.JSONLD    { return site.NewJSONLD(v.Offer) }
func (v view) Texts() map[string]map[string]string {
	texts := make(map[string]map[string]string)
	for _, name := range v.sheet.names {
		texts[name] = v.Language.Group(name)
	}
	return texts
}
