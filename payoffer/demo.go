package payoffer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// demoModule is the id under which a program has a Demo.
const demoModule = "pay_offer.demo"

// Demo plays those whom an offer needs for one whole sale. A program has one only
// where its own main registers it as a Caddy module: a server that xcaddy built, or
// a release, has none, whatever its configuration says. It is asked for an offer
// whose every address is one of the shipped Caddyfile's, and for no other.
type Demo interface {
	caddy.Module
	// Stage has the pretend parts wait for an offer, and says where.
	Stage(o *offer.Offer) (Stage, error)
}

// Stage is what stands in a demo in place of the real parts, on loopback alone and
// until the process ends.
type Stage struct {
	// Folder makes the folder that keeps the ledger and the keys, or finds it, and Strike
	// removes it before the process ends.
	Folder func() (string, error)
	Strike func()
	// Checkout is the address of the card checkout, and WebhookSecret signs what it
	// tells of. Facilitator is the address of the facilitator.
	Checkout, WebhookSecret, Facilitator string
}

// stage finds the pretend parts for an offer, built of the handler's options, that
// is to be a demo; nil where it is not.
func (h *Handler) stage(o *offer.Offer) (*Stage, error) {
	info, err := caddy.GetModule(demoModule)
	if err != nil || !h.asShipped() {
		return nil, nil
	}
	if publicHost(o.BaseURL) || publicHost(o.SiteURL) {
		return nil, errors.New("base_url and site_url of a demo are addresses of this machine alone; set your own addresses in place of all demo values, or leave out BASE_URL and SITE_URL")
	}
	stage, err := info.New().(Demo).Stage(o)
	if err != nil {
		return nil, fmt.Errorf("the demo cannot begin: %w", err)
	}
	return &stage, nil
}

// asShipped reports whether nobody has set an address, or anything that says how
// money is settled or observed, that is not the shipped Caddyfile's.
func (h *Handler) asShipped() bool {
	card := *h.Card
	card.Methods = nil
	untouched := isDemoValue(card.URL) && same(card, CardConfig{URL: card.URL})
	for _, u := range h.USDC {
		network, err := offer.LookupNetwork(u.Network)
		untouched = untouched && err == nil && network.Test && isDemoValue(u.Address) && same(*u, USDCConfig{Network: u.Network, Address: u.Address})
	}
	if b := h.Bitcoin; b != nil {
		untouched = untouched && isDemoValue(b.Account) && same(*b, BitcoinConfig{Account: b.Account})
	}
	if b := h.BankTransfer; b != nil {
		untouched = untouched && isDemoValue(b.Inbox) && same(*b, BankTransferConfig{Name: b.Name, Inbox: b.Inbox, Memo: b.Memo})
	}
	for _, s := range h.Storefronts {
		untouched = untouched && isDemoValue(s.URL) && same(*s, StorefrontConfig{Name: s.Name, URL: s.URL})
	}
	for _, a := range h.Announce {
		untouched = untouched && a.staysHere() // pretend money is no news for others
	}
	return untouched
}

// staysHere reports whether announcements go to a server of this machine.
func (a *AnnounceConfig) staysHere() bool {
	switch {
	case a.Ntfy != nil:
		return !publicHost(a.Ntfy.URL)
	case a.Email != nil:
		return !publicHost("smtp://" + a.Email.SMTP)
	default:
		return !publicHost(a.URL)
	}
}

// same reports whether two configurations would be written alike.
func same[C any](one, other C) bool { return pool.KeyOf("", one) == pool.KeyOf("", other) }

// isDemoValue reports whether a value is a demo value of the shipped Caddyfile.
func isDemoValue(value string) bool {
	return slices.ContainsFunc(demo, func(d demoValue) bool { return strings.EqualFold(d.value, value) })
}

// play puts the pretend parts in place of the addresses of nobody, and builds the
// settings anew. Rails at which no whole sale can be played are left out: nobody is
// sent to an address that does not exist.
func (h *Handler) play(stage *Stage, today time.Time, leftOut []string) (*service.Settings, error) {
	h.Card.URL, h.Card.PaymentLink, h.Card.WebhookSecret, h.Card.TestMode = stage.Checkout, offer.DemoLink, stage.WebhookSecret, true
	for _, u := range h.USDC {
		u.Facilitators, u.RPC, u.Explorer = []*FacilitatorConfig{{URL: stage.Facilitator}}, []string{upstreamOff}, upstreamOff
	}
	leftOut = append(leftOut, offer.RailBitcoin)
	if h.BankTransfer != nil {
		leftOut = append(leftOut, h.BankTransfer.name())
	}
	for _, s := range h.Storefronts {
		leftOut = append(leftOut, s.Name)
	}
	h.Bitcoin, h.BankTransfer, h.Storefronts = nil, nil, nil
	s, err := h.build(today, leftOut)
	if err == nil {
		s.Offer.Demo = true
	}
	return s, err
}

// keeps are the ledger of an offer, by its id, and the storage: files that end with
// the process.
func (stage *Stage) keeps(id string) (database, certmagic.Storage, error) {
	folder, err := stage.Folder()
	return database{driverSQLite, filepath.Join(folder, certmagic.StorageKeys.Safe(id)+".db")},
		&certmagic.FileStorage{Path: filepath.Join(folder, "storage")}, err
}

// everStarted says that a configuration of this process has. Where the first one is
// refused, Caddy ends the process and tells nobody.
var everStarted atomic.Bool

// strike removes what a demo keeps whose start was refused, once nobody writes there.
func (stage *Stage) strike() {
	if everStarted.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), exitTimeout)
	defer cancel()
	_ = outliving.Wait(ctx) // then there is no more time
	stage.Strike()
}

// keepDemoHere refuses a demo beside another offer, and one that others than this
// machine could reach. The caller holds the mutex.
func (app *App) keepDemoHere() error {
	if !app.plays {
		return nil
	}
	if len(app.services) > 1 {
		return errors.New("one of the offers is a demo, which stands alone: set your own addresses in place of its demo values, or take it out")
	}
	for _, listen := range app.listening {
		address, err := caddy.ParseNetworkAddress(listen)
		if err != nil || !offer.IsLoopback(address.Host) {
			return fmt.Errorf("this is a demo, which only this machine may reach, and it would listen on %q; leave out BIND, or set your own addresses in place of all demo values", listen)
		}
	}
	return nil
}
