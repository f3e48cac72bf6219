package payoffer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/certmagic"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// demoModule is the module id of a Demo.
const demoModule = "pay_offer.demo"

// Demo provides the fake services for one whole sale. Only this repository's main
// registers one: releases and servers that xcaddy built cannot run a demo. It is used only
// for an offer whose addresses are all those of the shipped Caddyfile.
type Demo interface {
	caddy.Module
	// Start starts the fake services for an offer, and returns where they are.
	Start(o *offer.Offer) (Sandbox, error)
}

// Sandbox is the fake services of a demo, on loopback and until the process ends.
type Sandbox struct {
	// Folder returns the folder of the ledger and the keys, and makes it if needed. Remove
	// removes it before the process ends.
	Folder func() (string, error)
	Remove func()
	// Checkout is the address of the card checkout, WebhookSecret signs its webhooks, and
	// Facilitator is the address of the facilitator.
	Checkout, WebhookSecret, Facilitator string
}

// demoValue is a placeholder value of the shipped Caddyfile, with its option.
type demoValue struct{ value, option string }

var demoValues = []demoValue{
	{"http://localhost:8403", "site_url"},
	{"https://checkout.example/pay-42", "card"},
	{"0x000000000000000000000000000000000000dEaD", "usdc"},
	{"tb1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq0l98cr", "bitcoin"},
	{"invoices@example.com", "bank_transfer"},
	{"https://tip-jar.example/42", "storefront tip-jar"},
	{"https://pack.example/42", "storefront pack"},
}

// addresses returns the addresses that receive the money of an offer.
func addresses(o *offer.Offer) (found []string) {
	for _, m := range o.Methods(offer.Live{}) {
		for _, address := range []string{m.URL, m.PayTo} {
			if address != "" && !strings.HasPrefix(address, o.BaseURL+"/") {
				found = append(found, address)
			}
		}
	}
	if b := o.Bitcoin(); b != nil {
		// Without a rate its method has no address yet.
		if address, err := b.Address(0); err == nil {
			found = append(found, address)
		}
	}
	return found
}

// checkDemoValues refuses a public offer with demo or test values, because its payers
// would not really pay the seller.
func checkDemoValues(o *offer.Offer, testnet, testMode bool) error {
	if !publicHost(o.BaseURL) {
		return nil
	}
	for _, address := range addresses(o) {
		if err := offer.CheckNoTestKey(address); err != nil {
			return err
		}
	}
	wrong := demoOptions(o)
	for _, address := range addresses(o) {
		if isExample(address) && !isExample(o.BaseURL) {
			wrong = append(wrong, address+" is an example of the documentation")
		}
	}
	if !publicHost(o.SiteURL) && !slices.Contains(wrong, "site_url") {
		wrong = append(wrong, "site_url "+o.SiteURL+" is reachable only on this machine")
	}
	for _, rail := range o.Rails {
		switch {
		case !rail.Test() || testnet || rail == offer.Rail(o.Card) && testMode:
		case rail == offer.Rail(o.Card):
			wrong = append(wrong, "card is a test checkout, which takes no real payments; to allow it, add the option 'test_mode' to its block")
		default:
			wrong = append(wrong, rail.Name()+" is on a test network; write a main network, such as base, or allow it by the option 'testnet' of pay_offer")
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("%s is public, but these options still have demo or test values; set each to your own value, "+
		"or remove its line:\n  - %s",
		o.BaseURL, strings.Join(wrong, "\n  - "))
}

// isExample reports whether an address has a placeholder of the documentation, or a host that nobody can have (RFC 2606).
func isExample(address string) bool {
	host := offer.Hostname(address)
	if _, domain, isMailbox := strings.Cut(address, "@"); isMailbox && host == "" {
		host = domain
	}
	return placeholder.MatchString(address) || reservedHost.MatchString(host)
}

var (
	placeholder  = regexp.MustCompile(`(?i)/your[-_]link$`)
	reservedHost = regexp.MustCompile(`(?i)(^|\.)(example|example\.(com|net|org)|test|invalid)$`)
)

// demoOptions returns the names of the options that have a demo value.
func demoOptions(o *offer.Offer) (options []string) {
	found := append(addresses(o), o.SiteURL)
	for _, d := range demoValues {
		if slices.Contains(found, d.value) {
			options = append(options, d.option)
		}
	}
	return options
}

// startDemo starts the fake services if an offer is to be a demo: the program has a Demo,
// every address is a demo value, and no option says how payments are settled or observed.
func startDemo(r *resolver, o *offer.Offer) (*Sandbox, error) {
	info, err := caddy.GetModule(demoModule)
	own := func(address string) bool {
		return !slices.ContainsFunc(demoValues, func(d demoValue) bool { return d.value == address })
	}
	if err != nil || r.customized || slices.ContainsFunc(addresses(o), own) {
		return nil, nil
	}
	if publicHost(o.BaseURL) || publicHost(o.SiteURL) {
		return nil, errors.New("base_url and site_url of a demo must be addresses of this machine, such as http://localhost:8402; replace all lines marked DEMO to go public")
	}
	sandbox, err := info.New().(Demo).Start(o)
	if err != nil {
		return nil, fmt.Errorf("the demo cannot start: %w", err)
	}
	return &sandbox, nil
}

// demoSettings builds the settings of a demo. Rails without a fake service are left out,
// because their addresses do not exist.
func (h *Handler) demoSettings(shipped *resolver, o *offer.Offer, today time.Time) (*service.Settings, *resolver) {
	r := newResolver()
	r.inDemo, r.leftOut = true, shipped.leftOut
	for _, rail := range o.Rails {
		r.leftOut = append(r.leftOut, rail.Name())
	}
	var rails []railConfig
	for _, config := range h.rails() {
		if rail, ok := config.(interface{ demoRail(*Sandbox) railConfig }); ok {
			rails = append(rails, rail.demoRail(h.demo))
		}
	}
	s := h.build(r, today, rails)
	if s.Offer != nil {
		s.Offer.Demo = true
	}
	return s, r
}

// files returns the ledger of an offer and the storage, which end with the process.
func (s *Sandbox) files(id string) (database, certmagic.Storage, error) {
	folder, err := s.Folder()
	return database{driverSQLite, filepath.Join(folder, certmagic.StorageKeys.Safe(id)+".db")},
		&certmagic.FileStorage{Path: filepath.Join(folder, "storage")}, err
}

// everStarted says that a configuration of this process has started. If Caddy refuses the
// first one, it ends the process without a callback.
var everStarted atomic.Bool

// tearDown removes the files of a demo that Caddy refused to start, after the last write.
func (s *Sandbox) tearDown() {
	if everStarted.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), exitTimeout)
	defer cancel()
	_ = awaitUnended(ctx)
	s.Remove()
}

// addListeners records the listen addresses of a server with a module of this package.
func (app *App) addListeners(ctx caddy.Context) error {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok { // a test without a server
		return nil
	}
	app.listening = append(app.listening, server.Listen...)
	return app.checkDemoIsLocal()
}

// checkDemoIsLocal refuses a demo together with another offer, or on an address that other
// machines can reach.
func (app *App) checkDemoIsLocal() error {
	if !slices.ContainsFunc(app.offers, func(svc *service.Service) bool { return svc.Offer.Demo }) {
		return nil
	}
	if len(app.offers) > 1 {
		return errors.New("a demo must be the only offer; replace its demo values, or remove it")
	}
	for _, listen := range app.listening {
		address, err := caddy.ParseNetworkAddress(listen)
		if err != nil || !offer.IsLoopback(address.Host) {
			return fmt.Errorf("a demo may be reachable only from this machine, but it would listen on %q; add 'bind 127.0.0.1' to its site blocks, or replace all lines marked DEMO", listen)
		}
	}
	return nil
}
