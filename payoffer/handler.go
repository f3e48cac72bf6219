// Package payoffer contains the Caddy modules of payment offers: the directive with its
// options, and the app. The modules and their JSON are the only interface for others.
package payoffer

import (
	"cmp"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

func init() {
	caddy.RegisterModule(Handler{})
}

// Handler offers one fixed payment on every configured rail, to people and to
// programs. It answers the offer's own paths and passes every other request to
// the next handler.
//
// Every string option accepts the placeholders `{env.*}` and `{file.*}`, which
// are replaced when the configuration is loaded. A secret written that way is
// not part of the configuration; its feature is off if it has no value. An
// empty address leaves its rail out.
type Handler struct {
	// The id of the offer in the ledger. Blocks with equal options are one offer. Keep it when base_url changes. Default: the host
	// and port of base_url.
	ID string `json:"id,omitempty"`

	// The origin at which payers reach the offer: scheme, host and optional port. Required.
	BaseURL string `json:"base_url,omitempty"`

	// The origin of the site that serves the payment page at /offer/ (pay_offer_page).
	// Default: base_url.
	SiteURL string `json:"site_url,omitempty"`

	// Where "Back" leads after a payment: an absolute address that opens no checkout. Default:
	// the root of site_url.
	Home string `json:"home,omitempty"`

	// The name of the offer, at most 80 characters. Default: "Payment offer".
	Name string `json:"name,omitempty"`

	// The seller, at most 80 characters. Default: the host of site_url.
	Operator string `json:"operator,omitempty"`

	// What payers pay for, at most 500 characters. Default: a sentence with the amount.
	Description string `json:"description,omitempty"`

	// An e-mail address for questions. Default: none.
	Contact string `json:"contact,omitempty"`

	// The page of the source code, to which documents link. Default: that of this module.
	SourceURL string `json:"source_url,omitempty"`

	// The local part of the offer's WebFinger account, acct:<account>@<host>. Default: pay.
	Account string `json:"account,omitempty"`

	// The price in US dollars, such as 9.50. Default: 42; another price logs a warning.
	Amount string `json:"amount,omitempty"`

	// Your own EVM address. Payments from it do not count as customer payments. Default:
	// none.
	IgnorePayers lines `json:"ignore_payers,omitempty"`

	// Whether test networks are allowed on a public base_url. Default: off.
	Testnet bool `json:"testnet,omitempty"`

	// The rail that the payment page opens first, such as usdc. Default: card.
	Recommend string `json:"recommend,omitempty"`

	// An image for the pages, a square or a word: a path on the host of base_url, or its
	// address. Previews of shared links show only PNG, JPEG, GIF or WebP, up to 1 MB. Default:
	// none.
	Logo string `json:"logo,omitempty"`

	// The color of buttons and links, without a hash, which begins a comment. Default: 0f766e.
	Accent string `json:"accent,omitempty"`

	// A stylesheet for the pages, loaded after their own: a path on the host of base_url, or its
	// address. Default: none.
	Style string `json:"style,omitempty"`

	// What payers read after a payment, at most 500 characters. Default: only that the
	// payment arrived.
	Thanks string `json:"thanks,omitempty"`

	// What payers read about refunds, at most 500 characters. Default: none.
	Refunds string `json:"refunds,omitempty"`

	// The lines that invoices need, such as your address and tax number, each at most 140
	// characters. Default: none.
	Legal []string `json:"legal,omitempty"`

	// The total that you want to receive. The report shows it. Default: none.
	Goal string `json:"goal,omitempty"`

	// Who can read the payments received, without their payers: "public" (everybody, at
	// /v1/received) or "private" (the operator). Default: public.
	Received string `json:"received,omitempty"`

	// Words for x402 directories: at most five, each of at most 32 printable ASCII characters.
	// Default: none.
	Tags []string `json:"tags,omitempty"`

	// The header of MPP payments: "authorization"; "header" (Payment-Authorization), for a site
	// whose login needs Authorization; or "off". Default: authorization.
	MPP string `json:"mpp,omitempty"`

	// How often one client address (IPv6: /64 network) may attempt to pay. Default: 10
	// attempts in 1m.
	RateLimit *RateLimitConfig `json:"rate_limit,omitempty"`

	// The card checkout. Required.
	Card *CardConfig `json:"card,omitempty"`

	// A USDC rail, one for each chain. The first is named usdc, the others usdc-<chain id>.
	// Default: none.
	USDC []*USDCConfig `json:"usdc,omitempty"`

	// The Bitcoin rail. Default: none.
	Bitcoin *BitcoinConfig `json:"bitcoin,omitempty"`

	// The Lightning rail. Default: none.
	Lightning *LightningConfig `json:"lightning,omitempty"`

	// The bank-transfer rail. Default: none.
	BankTransfer *BankTransferConfig `json:"bank_transfer,omitempty"`

	// A checkout at a shop, such as Gumroad. Default: none.
	Storefronts []*StorefrontConfig `json:"storefronts,omitempty"`

	// A webhook, ntfy topic or mailbox that is notified of payments. Default: only Caddy's log
	// and events.
	Announce []*AnnounceConfig `json:"announce,omitempty"`

	app   *App
	offer *service.Service // its Server is nil before acquire, and if the start fails
	log   requestLog
	demo  *Sandbox // nil unless the offer is a demo
}

// CaddyModule returns the Caddy module information.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.pay_offer",
		New: func() caddy.Module { return new(Handler) },
	}
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
// The options are those of the JSON configuration, one a line. An option that may be
// repeated is a list there.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	return h.options().unmarshal(d, "pay_offer [<matcher>] { ... }")
}

func (h *Handler) options() options {
	return options{
		"id": &h.ID, "base_url": &h.BaseURL, "site_url": &h.SiteURL, "home": &h.Home, "name": &h.Name, "operator": &h.Operator,
		"description": &h.Description, "contact": &h.Contact, "source_url": &h.SourceURL, "account": &h.Account,
		"amount": &form{"amount <US dollars>, a number without a currency, such as amount 42", []*string{&h.Amount}}, "ignore_payer": &h.IgnorePayers, "testnet": &h.Testnet, "recommend": &h.Recommend,
		"logo": &h.Logo, "accent": &form{"accent <6 hexadecimal digits>, such as accent 0f766e; a # begins a comment", []*string{&h.Accent}}, "style": &h.Style, "thanks": &h.Thanks, "refunds": &h.Refunds, "legal": &h.Legal, "goal": &form{"goal <US dollars>, a number without a currency, such as goal 500", []*string{&h.Goal}}, "received": &h.Received,
		"tags": &h.Tags, "mpp": &h.MPP, "rate_limit": &h.RateLimit, "card": &h.Card, "usdc": &h.USDC,
		"bitcoin": &h.Bitcoin, "lightning": &h.Lightning, "bank_transfer": &h.BankTransfer, "storefront": &h.Storefronts, "announce": &h.Announce,
	}
}

const (
	// defaultAmount is the price that the interface fixes.
	defaultAmount    offer.USD = 4200
	defaultSourceURL           = "https://github.com/payoffer/caddy-pay-offer"
	maxTags                    = 5
)

var (
	offerID  = regexp.MustCompile(`^[A-Za-z0-9._:\[\]-]{1,100}$`)
	received = regexp.MustCompile(`^(public|private)$`)
	railName = regexp.MustCompile(`^[a-z0-9-]{1,80}$`)
	// tag is the form of a tag in facilitators and directories (x402, Bazaar).
	tag = regexp.MustCompile(`^[!-~]([ -~]{0,30}[!-~])?$`)
	// mppHeaders are the request headers of the Payment scheme, by the option's value.
	mppHeaders = map[string]string{"authorization": "Authorization", "header": "Payment-Authorization", off: ""}
)

// terms resolves the options that belong to no rail.
func (h *Handler) terms(r *resolver, today time.Time) offer.Terms {
	t := offer.Terms{
		BaseURL:         resolve(r, "base_url", h.BaseURL, offer.ParseOrigin),
		Name:            cmp.Or(r.text("name", h.Name, 80), offer.DefaultName),
		Contact:         resolve(r, "contact", h.Contact, offer.ParseMailbox),
		SourceURL:       cmp.Or(resolve(r, "source_url", h.SourceURL, parseURL), defaultSourceURL),
		Account:         cmp.Or(resolve(r, "account", h.Account, func(s string) (string, error) { return s, offer.CheckAccount(s) }), "pay"),
		Amount:          cmp.Or(resolve(r, "amount", h.Amount, offer.ParseUSD), defaultAmount),
		Goal:            resolve(r, "goal", h.Goal, offer.ParseUSD),
		Recommend:       r.word("recommend", h.Recommend, railName, "the name of a rail, such as usdc"),
		PrivateReceived: r.word("received", h.Received, received, "public or private; write one of them") == "private",
		Thanks:          r.text("thanks", h.Thanks, 500),
		Refunds:         r.text("refunds", h.Refunds, 500),
		Updated:         today.UTC().Format(time.DateOnly),
	}
	if t.BaseURL == "" && r.replace(h.BaseURL) == "" {
		r.fail("base_url", unset(h.BaseURL, "the option is missing or empty", "write the address that payers use, such as 'base_url https://pay.example.org'"))
	}
	t.SiteURL = cmp.Or(resolve(r, "site_url", h.SiteURL, offer.ParseOrigin), t.BaseURL)
	t.Home = resolve(r, "home", h.Home, parseURL)
	t.ID = cmp.Or(r.word("id", h.ID, offerID, "an id; use at most 100 letters, digits, dots, colons, hyphens and underscores"), offer.Host(t.BaseURL))
	t.Operator = cmp.Or(r.text("operator", h.Operator, 80), offer.Host(t.SiteURL))
	t.Description = cmp.Or(r.text("description", h.Description, 500), offer.DefaultDescription(t.Amount))
	for _, line := range h.Legal {
		if line = r.text("legal", line, 140); line != "" {
			t.Legal = append(t.Legal, line)
		}
	}
	t.Tags = resolveAll(r, "tags", h.Tags, func(s string) (string, error) {
		if !tag.MatchString(s) {
			return "", fmt.Errorf("%q is not a tag; write at most 32 printable ASCII characters, such as donation", s)
		}
		return s, nil
	})
	if len(t.Tags) > maxTags {
		r.fail("tags", fmt.Errorf("there are %d tags, and directories accept at most %d; remove some", len(t.Tags), maxTags))
	}
	t.MPP = mppHeaders["authorization"]
	resolve(r, "mpp", h.MPP, func(s string) (known bool, err error) {
		if t.MPP, known = mppHeaders[s]; !known {
			err = fmt.Errorf("%q is unknown; write authorization, header or off", s)
		}
		return known, err
	})
	t.Accent = resolve(r, "accent", h.Accent, offer.ParseColor)
	onHost := func(example string) func(string) (string, error) {
		return func(s string) (string, error) {
			if strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//") {
				s = t.BaseURL + s
			}
			if _, err := offer.ParseURL(s); err != nil || !strings.HasPrefix(s, t.BaseURL+"/") {
				return "", fmt.Errorf("%q is not on the host of base_url, and pages load nothing from other hosts; serve the file there and write its path, such as %s", s, example)
			}
			return s, nil
		}
	}
	t.Logo = resolve(r, "logo", h.Logo, onHost("/logo.svg"))
	t.Style = resolve(r, "style", h.Style, onHost("/brand.css"))
	return t
}

func parseURL(s string) (string, error) {
	_, err := offer.ParseURL(s)
	return s, err
}

// railConfig is the config block of a rail.
type railConfig interface {
	// provision resolves the options, adds to s how the rail is observed, and returns the
	// rail. It returns nil if the address is empty or an option is wrong.
	provision(r *resolver, t offer.Terms, s *service.Settings) offer.Rail
}

// rails are the config blocks of the rails, in the order of their fields. Rails are published
// in this order.
func (h *Handler) rails() (rails []railConfig) {
	add := func(block reflect.Value) {
		if config, ok := block.Interface().(railConfig); ok && !block.IsNil() {
			rails = append(rails, config)
		}
	}
	for field, value := range reflect.ValueOf(h).Elem().Fields() {
		switch {
		case field.IsExported() && value.Kind() == reflect.Slice:
			for _, block := range value.Seq2() {
				add(block)
			}
		case field.IsExported():
			add(value)
		}
	}
	return rails
}

// withoutNil leaves out what is null in the JSON configuration.
func withoutNil[C any](configs []*C) []*C {
	return slices.DeleteFunc(slices.Clone(configs), func(c *C) bool { return c == nil })
}

// Provision resolves and checks the options and registers the offer. It makes no network
// call and opens no database.
func (h *Handler) Provision(ctx caddy.Context) error {
	value, err := ctx.App("pay_offer")
	if err != nil {
		return err
	}
	h.log = requestLog{ctx.Logger(accessLog{}), ctx.Logger()}
	h.app = value.(*App)
	r := newResolver()
	s, err := h.settings(r, time.Now())
	if err != nil {
		return err
	}
	if h.offer, err = h.app.register(s, r, h.demo); err != nil {
		return err
	}
	return h.app.addListeners(ctx)
}

// ServeHTTP answers the offer's paths.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	_ = h.app.Acquire()
	if h.offer.Server == nil {
		unavailable(w)
		return nil
	}
	serve := func(w http.ResponseWriter) error {
		if h.offer.Server.Serve(w, r) {
			return nil
		}
		return next.ServeHTTP(w, r)
	}
	return h.log.serve(w, r, hasSecret(r), serve)
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyfile.Unmarshaler       = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
