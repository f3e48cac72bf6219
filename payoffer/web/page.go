package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html/template"
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/site"
)

//go:embed pages
var pages embed.FS

// Templates of the pages, and what is inlined in each.
var (
	payTemplate      = template.Must(template.ParseFS(pages, "pages/layout.html", "pages/pay.html"))
	transferTemplate = template.Must(template.ParseFS(pages, "pages/layout.html", "pages/pay.html", "pages/transfer.html"))
	receivedTemplate = template.Must(template.ParseFS(pages, "pages/layout.html", "pages/received.html"))

	pageStyle  = site.Style + readPage("page.css")
	pageScript = readPage("copy.js")
)

// contentSecurity lets a page load nothing but QR images of its own host, and
// run nothing but the inlined script (CSP Level 3). JSON-LD is data and needs
// no permission.
var contentSecurity = header{"Content-Security-Policy", "default-src 'none'; img-src 'self'; style-src '" +
	sourceHash(pageStyle) + "'; script-src '" + sourceHash(pageScript) +
	"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}

func readPage(file string) string {
	data, err := pages.ReadFile("pages/" + file)
	if err != nil {
		panic(err) // the file is embedded
	}
	return string(data)
}

// sourceHash is the CSP source of an inlined text.
func sourceHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// pageData is what every page shows.
type pageData struct {
	Title, URL string
	Offer      *offer.Offer
	Style      template.CSS
	Script     template.JS
	JSONLD     any
}

func (s *Server) pageData(title, path string) pageData {
	return pageData{
		Title: title, URL: s.Offer.URL(path), Offer: s.Offer,
		Style: template.CSS(pageStyle), Script: template.JS(pageScript), JSONLD: site.NewJSONLD(s.Offer),
	}
}

// page is an answer with a page for people.
func (s *Server) page(cache string, body []byte, headers ...header) *response {
	return s.render(http.StatusOK, typeHTML, cache, body, append(headers, contentSecurity, header{"Referrer-Policy", "no-referrer"})...)
}

func execute(t *template.Template, data any) []byte {
	var body bytes.Buffer
	if err := t.ExecuteTemplate(&body, "layout.html", data); err != nil {
		panic("web: " + err.Error()) // a template that does not fit its data; every page is tested
	}
	return body.Bytes()
}

// railView is one way to pay as a page shows it.
type railView struct {
	offer.Method
	// Href leaves out html/template's list of safe schemes, which has no
	// wallet: every link is one that package offer built.
	Href   template.URL
	QR     string
	Action string
	Page   string
	// First is the rail whose button stands out.
	First bool
	// Wallet says that a wallet reads the QR code, which some misread.
	Wallet bool
	Test   bool
}

func newRailView(rail offer.Rail, m offer.Method, key []byte) railView {
	view := railView{
		Method: m, Href: template.URL(m.Link()), First: m.Rail == offer.RailCard, Test: rail.Test(),
		Wallet: m.Scheme == "eip681" || m.Scheme == "bip21",
	}
	switch {
	case view.First:
		view.Action = "Pay " + m.AmountUSD.String() + " USD"
	case view.Wallet:
		view.Action = "Open in a wallet"
	case m.URL != "":
		view.Action = "Open the checkout"
	default:
		view.Action, view.Page = "Ask for the invoice", offer.PagePath(m.Rail)
	}
	if m.Available && key != nil {
		view.QR = qrPath(key, m.Rail, m.Link())
	}
	return view
}

// payPage is the page of /v1/pay: every rail, the card first.
func (s *Server) payPage(live offer.Live, key []byte) []byte {
	data := struct {
		pageData
		Rails   []railView
		Sponsor string
	}{pageData: s.pageData("Pay "+s.Offer.Amount.String()+" USD: "+s.Offer.Name, offer.PathMethods)}
	for _, rail := range s.Offer.Rails {
		data.Rails = append(data.Rails, newRailView(rail, rail.Methods(s.Offer, live)[0], key))
	}
	if len(s.Payments.Accepts()) > 0 {
		data.Sponsor = s.Offer.URL(offer.PathSponsor)
	}
	return execute(payTemplate, data)
}
