// Package diagnose finds problems around offers as they are configured: their public
// addresses, proxies in front, chains, facilitators, price sources, and what the running
// server reports. It moves no money, and stores nothing but a pass that it deletes.
package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// runTimeout bounds Run, and callTimeout one call.
const runTimeout, callTimeout = 60 * time.Second, 10 * time.Second

// World contains what the checks need from outside. Every field is required.
type World struct {
	Transport http.RoundTripper
	// Ask returns the running server's report on its offers.
	Ask func(ctx context.Context) ([]operator.Diagnostics, error)
	// Pass makes or deletes a pass of the running server.
	Pass func(ctx context.Context, p operator.PassChange) (operator.Pass, error)
	Now  func() time.Time
}

// Offer is one offer of a configuration.
type Offer struct {
	*service.Settings
	Links []string // the addresses that its server answers
}

// Issue is a problem. It contains no secret: it names upstreams only by their hosts.
type Issue struct {
	Code    string `json:"code"`
	Offer   string `json:"offer,omitempty"` // the id of the offer; empty if the issue concerns all offers
	Subject string `json:"subject"`         // a host, an address of the offer, or a rail
	What    string `json:"what"`
	Fix     string `json:"fix"`
}

// Report is the result of Run.
type Report struct {
	CheckedAt string    `json:"checked_at"` // RFC 3339
	Offers    []Checked `json:"offers"`
	Issues    []Issue   `json:"issues"` // in the order of Codes
}

// Checked is a checked offer.
type Checked struct {
	ID      string `json:"id"`
	BaseURL string `json:"base_url"`
}

// Run checks all offers concurrently. It takes at most runTimeout.
func Run(ctx context.Context, w World, offers []Offer) Report {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	d := &diagnosis{World: w, offers: offers}
	d.client = http.Client{Transport: w.Transport, Timeout: callTimeout, CheckRedirect: source.NoRedirect}
	running, err := w.Ask(ctx)
	if err != nil {
		d.add(NotRunning, "", "admin API", err.Error())
	}
	d.ledger(running)
	report := Report{CheckedAt: w.Now().UTC().Format(time.RFC3339), Offers: []Checked{}}
	var work sync.WaitGroup
	for _, o := range offers {
		report.Offers = append(report.Offers, Checked{ID: o.Offer.ID, BaseURL: o.Offer.BaseURL})
		c := &check{diagnosis: d, Offer: o, answered: err == nil}
		if i := slices.IndexFunc(running, func(r operator.Diagnostics) bool { return r.ID == o.Offer.ID }); i >= 0 {
			c.running = &running[i]
		}
		work.Go(func() { c.run(ctx) })
	}
	work.Wait()
	d.machineClock(running)
	report.Issues = d.sorted()
	return report
}

// diagnosis is one run of the checks.
type diagnosis struct {
	World
	offers []Offer // each one gets the card webhooks of all of them
	client http.Client
	mu     sync.Mutex
	issues []Issue
}

// add adds an issue of an offer, or of all offers.
func (d *diagnosis) add(code Code, id, subject, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.issues = append(d.issues, Issue{code.Name, id, subject, what, code.Fix})
}

// sorted returns the issues in the order of the codes, each once.
func (d *diagnosis) sorted() []Issue {
	slices.SortFunc(d.issues, func(a, b Issue) int {
		return cmp.Or(position(a)-position(b), strings.Compare(a.Offer+" "+a.Subject+" "+a.What, b.Offer+" "+b.Subject+" "+b.What))
	})
	return append([]Issue{}, slices.Compact(d.issues)...)
}

func position(i Issue) int {
	return slices.IndexFunc(Codes, func(c Code) bool { return c.Name == i.Code })
}

// ledger checks the ledger that all offers share.
func (d *diagnosis) ledger(running []operator.Diagnostics) {
	for _, r := range running {
		switch {
		case r.Ledger.Lost != "":
			d.add(LedgerLost, "", "ledger", r.Ledger.Lost)
		case r.Ledger.Damaged != "":
			d.add(LedgerDamaged, "", "ledger", r.Ledger.Damaged)
		case !r.Ledger.Writable:
			d.add(LedgerUnwritable, "", "ledger", strings.TrimSuffix("the running server cannot write to its ledger: "+r.Ledger.Trouble, ": "))
		}
	}
}

// machineClock compares the clock with the newest block, as the running server reports it.
func (d *diagnosis) machineClock(running []operator.Diagnostics) {
	for _, r := range running {
		if r.Clock != 0 {
			d.add(ClockWrong, "", "clock", fmt.Sprintf("the clock of this machine differs by %+d s from the newest block", r.Clock))
			return // all offers have one clock
		}
	}
}

// check checks one offer.
type check struct {
	*diagnosis
	Offer
	answered bool                  // whether a server answered at the admin API
	running  *operator.Diagnostics // its report on this offer, or nil
}

// addIssue adds an issue of this offer.
func (c *check) addIssue(code Code, subject, what string) {
	c.add(code, c.Offer.Offer.ID, subject, what)
}

func (c *check) run(ctx context.Context) {
	if c.running != nil && c.running.Demo {
		c.addIssue(Demo, c.Offer.Offer.ID, "the running server runs a demo of "+c.Offer.Offer.ID)
		return
	}
	var work sync.WaitGroup
	work.Go(func() { c.service(ctx) })
	work.Go(func() { c.links(ctx, c.otherAddresses()) })
	work.Go(func() { c.gates(ctx) })
	for _, u := range service.RailsOf[service.USDC](c.Settings) {
		for _, endpoint := range u.RPC {
			work.Go(func() { c.chain(ctx, u, endpoint) })
		}
		for _, config := range u.Facilitators {
			work.Go(func() { c.facilitator(ctx, u, config) })
		}
	}
	for _, b := range service.RailsOf[service.Bitcoin](c.Settings) {
		work.Go(func() { c.prices(ctx, b.Name(), b.Rates) })
	}
	for _, l := range service.RailsOf[service.Lightning](c.Settings) {
		work.Go(func() { c.wallet(ctx, l) })
		if c.Offer.Offer.Bitcoin() == nil {
			work.Go(func() { c.prices(ctx, l.Name(), nil) })
		}
	}
	for _, rail := range service.RailsOf[service.Card](c.Settings) {
		if rail.APIKey != "" {
			work.Go(func() { c.cardPrices(ctx, rail) })
		}
	}
	work.Wait()
	c.server()
}

// server adds the issues that the running server reports of the offer. It is called last,
// because RailUnobserved is left out if another issue explains it.
func (c *check) server() {
	off := c.HooksOff
	if c.running != nil {
		off = c.running.WebhooksOff
	}
	for _, rail := range off {
		c.addIssue(WebhookOff, rail, "the secret of the webhook of "+rail+" is empty")
	}
	id := c.Offer.Offer.ID
	if c.running == nil {
		if c.answered {
			c.addIssue(SettingsDiffer, id, "the running server has no offer "+id)
		}
		return
	}
	if c.running.Settings != c.Key {
		c.addIssue(SettingsDiffer, id, "the running server has other settings for "+id)
	}
	for _, u := range service.RailsOf[service.USDC](c.Settings) {
		if !(offer.Live{Networks: c.running.Networks}).Takes(u.Network.CAIP2()) {
			c.addIssue(FacilitatorNetwork, u.Name(), "no facilitator supports "+u.Network.Name+", so it is not offered now")
		}
	}
	for host, reply := range c.running.Rejections {
		c.addIssue(FacilitatorFailing, host, "the last payment was answered "+reply)
	}
	for _, rail := range c.running.Rails {
		switch {
		case rail.Error == "", rail.Error == observe.ErrUnverified:
		case rail.Error == observe.ErrClock:
			c.addIssue(ClockWrong, rail.Rail, "webhooks of "+rail.Rail+" are genuine and more than 300 s away from this machine's clock")
		case !c.isExplained(rail.Rail):
			code := RailUnobserved.of(rail.Rail)
			if rail.Error == observe.ErrUnreachable {
				code.Fix = "Check the network and the firewall of this machine, and the status page of the source. " + code.Fix
			}
			c.addIssue(code, rail.Rail, fmt.Sprintf("payments by %s are not read (%.40s)", rail.Rail, rail.Error))
		}
		if slices.Contains([]string{rail.Error, rail.Deliveries}, observe.ErrUnverified) {
			c.addIssue(WebhookUnverified, rail.Rail, "deliveries to the webhook of "+rail.Rail+" are not signed with its secret")
		}
		if rail.Foreign && slices.ContainsFunc(service.RailsOf[service.Card](c.Settings), func(card service.Card) bool {
			return card.APIKey == "" && card.Name() == rail.Rail
		}) {
			c.addIssue(CardPrices, rail.Rail, "api_key is not set, and there are payments in other currencies")
		}
		for _, link := range strings.Fields(rail.OtherLinks) {
			sold := slices.ContainsFunc(c.offers, func(o Offer) bool { return o.Offer.Card != nil && o.Offer.Card.PaymentLink == link })
			if card := c.Offer.Offer.Card; card != nil && !sold {
				c.addIssue(CardLink, rail.Rail, fmt.Sprintf("payment_link is %s, and a checkout of %s was paid", card.PaymentLink, link))
			}
		}
	}
	for _, r := range c.running.Receivers {
		if r.LastError != "" && !c.isExplained(r.Host) {
			c.addIssue(NotificationFailing, r.Host, fmt.Sprintf("the last notification to %s failed (%s); %d wait", r.Host, r.LastError, r.Behind))
		}
	}
}

// isExplained reports whether another issue explains why a rail is not read.
func (c *check) isExplained(rail string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.issues, func(i Issue) bool {
		return i.Offer == c.Offer.Offer.ID && i.Subject == rail && i.Code != PriceSource.Name ||
			slices.Contains([]string{LedgerUnwritable.Name, LedgerLost.Name, LedgerDamaged.Name}, i.Code)
	})
}
