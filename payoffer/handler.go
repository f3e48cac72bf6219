// Package payoffer puts payment offers into Caddy: the directive and its
// options, the app behind it, and what Caddy asks of them. Its modules and
// their JSON are the interface for others; the packages below it serve this
// repository alone.
package payoffer

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

func init() {
	caddy.RegisterModule(Handler{})
}

// Handler offers one fixed payment on every configured rail, to people and to
// programs. It answers the offer's own paths and leaves every other request to
// the next handler.
//
// Every string option takes the placeholders `{env.*}` and `{file.*}`, which
// are resolved when the configuration is loaded. A secret written that way is
// not part of the configuration; where it has no value its feature is off. An
// empty address leaves its rail out.
type Handler struct {
	// The id of the offer in the ledger. Default: the host and port of
	// base_url.
	ID string `json:"id,omitempty"`

	// The origin at which the offer is reached: scheme, host and optional
	// port. It is its identity in documents and receipts. Required.
	BaseURL string `json:"base_url,omitempty"`

	// The origin of the site that has the page for people at /offer/.
	// Default: base_url.
	SiteURL string `json:"site_url,omitempty"`

	// The name of the offer, at most 80 characters. Default: "Payment offer".
	Name string `json:"name,omitempty"`

	// Who is paid, at most 80 characters. Default: the host of site_url.
	Operator string `json:"operator,omitempty"`

	// What is paid for, at most 500 characters. Default: a sentence with the
	// amount.
	Description string `json:"description,omitempty"`

	// An e-mail address for questions. Default: none.
	Contact string `json:"contact,omitempty"`

	// The page of the service's source code. Default: that of this module.
	SourceURL string `json:"source_url,omitempty"`

	// The local part of the offer's acct: URI. Default: pay.
	Account string `json:"account,omitempty"`

	// The price in US dollars. Default: 42, the amount of the interface;
	// another one is warned about.
	Amount string `json:"amount,omitempty"`

	// The operator's own EVM addresses. Payments from them are not counted
	// as money from others. Default: none.
	IgnorePayers []string `json:"ignore_payers,omitempty"`

	// Whether test networks are meant on a public base_url, where they are
	// refused otherwise. Default: false.
	Testnet bool `json:"testnet,omitempty"`

	// The name of the rail that the page for people opens first. Default: card.
	Recommend string `json:"recommend,omitempty"`

	// An image for the pages: a path on the host of base_url, as in /logo.svg, or
	// its whole address. Default: none.
	Logo string `json:"logo,omitempty"`

	// What payers are told after a payment, at most 500 characters. Default:
	// nothing beside that it arrived.
	Thanks string `json:"thanks,omitempty"`

	// What payers are told of refunds, at most 500 characters. Default: nothing.
	Refunds string `json:"refunds,omitempty"`

	// The lines that receipts carry as invoices need them, such as name, address
	// and tax number, each at most 140 characters. Default: none.
	Legal []string `json:"legal,omitempty"`

	// What is to be received in all, in US dollars, which the report of received
	// money compares with. Default: none; the price stands there for programs.
	Goal string `json:"goal,omitempty"`

	// Words under which directories of payable addresses list this one: at most
	// five, each of at most 32 printable ASCII characters. Default: none.
	Tags []string `json:"tags,omitempty"`

	// Where the Payment scheme (MPP) has its credentials: "authorization" takes them
	// in Authorization, "header" in Payment-Authorization, for a site whose own login
	// needs the other one, and "off" does not speak it. Default: authorization.
	MPP string `json:"mpp,omitempty"`

	// How often one client address may attempt to pay. Default: 10 attempts
	// in 1m.
	RateLimit *RateLimitConfig `json:"rate_limit,omitempty"`

	// The card checkout. Required.
	Card *CardConfig `json:"card,omitempty"`

	// The USDC rails, one for each chain. The first is named usdc, the
	// others usdc-<chain id>. Default: none.
	USDC []*USDCConfig `json:"usdc,omitempty"`

	// The Bitcoin rail. Default: none.
	Bitcoin *BitcoinConfig `json:"bitcoin,omitempty"`

	// The bank-transfer rail. Default: none.
	BankTransfer *BankTransferConfig `json:"bank_transfer,omitempty"`

	// The storefront rails. Default: none.
	Storefronts []*StorefrontConfig `json:"storefronts,omitempty"`

	// Where receipts are announced: to webhooks, topics of ntfy, and mailboxes.
	// Default: nowhere but in the log, and by the events of the server.
	Announce []*AnnounceConfig `json:"announce,omitempty"`

	service *service.Service
	demo    *Stage // nil for an offer that takes money
}

// CaddyModule returns the Caddy module information.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.pay_offer",
		New: func() caddy.Module { return new(Handler) },
	}
}

// Provision resolves and checks the options and renders the offer, or goes on
// with the one that is running. It calls nobody and opens nothing.
func (h *Handler) Provision(ctx caddy.Context) error {
	value, err := ctx.App("pay_offer")
	if err != nil {
		return err
	}
	app, r := value.(*App), newResolver()
	s, err := h.settings(r, time.Now())
	if err != nil {
		return discreet(err)
	}
	if h.service, err = app.acquire(s, r, h.demo); err != nil {
		return err
	}
	return app.hosted(ctx)
}

// Validate refuses a public offer with the demo values of the shipped
// Caddyfile, or with test values that nobody asked for.
func (h *Handler) Validate() error {
	return checkDemo(h.service.Offer, h.Testnet, h.Card.TestMode)
}

// ServeHTTP answers the offer's paths.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if h.service.Server.Serve(w, r) {
		return nil
	}
	return next.ServeHTTP(w, r)
}

// Interface guards
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddy.Validator             = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
