// Package diagnose finds problems around offers as they are configured: their public
// addresses, proxies in front, chains, facilitators, price sources, and what the running
// server reports. It moves no money and stores nothing.
package diagnose

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/clock"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// runTimeout bounds Run, and callTimeout one call.
const runTimeout, callTimeout = 60 * time.Second, 10 * time.Second

// World is what surrounds the offers. Every field is required.
type World struct {
	Transport http.RoundTripper
	// Ask returns what the running server reports of its offers.
	Ask func(ctx context.Context) ([]operator.Diagnostics, error)
	Now func() time.Time
}

// Offer is one offer of a configuration.
type Offer struct {
	*service.Settings
	// Links are the addresses that its server answers.
	Links []string
}

// Issue is a problem. It contains no secret: of the address of an upstream it has only
// the host.
type Issue struct {
	Code string `json:"code"`
	// Offer is the id of the offer; empty if the issue concerns all offers.
	Offer string `json:"offer,omitempty"`
	// Subject is a host, an address of the offer, or a rail.
	Subject string `json:"subject"`
	What    string `json:"what"`
	Fix     string `json:"mend"`
}

// Report is the result of Run.
type Report struct {
	CheckedAt string    `json:"checkedAt"` // RFC 3339
	Offers    []Checked `json:"offers"`
	Issues    []Issue   `json:"findings"` // in the order of Codes
}

// Checked is an offer that was checked.
type Checked struct {
	ID      string `json:"id"`
	BaseURL string `json:"baseUrl"`
}

// Run checks all offers at once. It ends after a minute at the latest.
func Run(ctx context.Context, w World, offers []Offer) Report {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	d := &diagnosis{World: w, clock: clock.New(w.Now, slog.New(slog.DiscardHandler)), client: http.Client{Transport: w.Transport, Timeout: callTimeout, CheckRedirect: source.NoRedirect}}
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
		if c.running != nil && c.running.Demo {
			c.found(Demo, o.Offer.ID, "the running server plays a demo of "+o.Offer.ID)
			continue
		}
		work.Go(func() { c.run(ctx) })
	}
	work.Wait()
	d.machineClock(running)
	report.Issues = d.sorted()
	return report
}

// diagnosis is a run of the checks.
type diagnosis struct {
	World
	clock  *clock.Clock // compares the Date of upstreams
	client http.Client
	mu     sync.Mutex
	issues []Issue
}

// add adds an issue of an offer, or of all offers, unless it was added before.
func (d *diagnosis) add(code Code, id, subject, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := Issue{code.Name, id, subject, what, code.Fix}
	if !slices.Contains(d.issues, i) {
		d.issues = append(d.issues, i)
	}
}

// sorted returns the issues in the order of the codes.
func (d *diagnosis) sorted() []Issue {
	position := func(name string) int {
		return slices.IndexFunc(Codes, func(c Code) bool { return c.Name == name })
	}
	slices.SortFunc(d.issues, func(a, b Issue) int {
		return cmp.Or(position(a.Code)-position(b.Code), strings.Compare(a.Offer+" "+a.Subject+" "+a.What, b.Offer+" "+b.Subject+" "+b.What))
	})
	return append([]Issue{}, d.issues...)
}

// ledger checks the ledger that all offers share.
func (d *diagnosis) ledger(running []operator.Diagnostics) {
	for _, r := range running {
		switch {
		case r.Ledger.Lost != "":
			d.add(LedgerLost, "", "ledger", r.Ledger.Lost)
		case !r.Ledger.Writable:
			what := "the running server cannot write to its ledger"
			if r.Ledger.Trouble != "" {
				what += ": " + r.Ledger.Trouble
			}
			d.add(LedgerUnwritable, "", "ledger", what)
		}
	}
}

// machineClock compares the clock with the upstreams that were called.
func (d *diagnosis) machineClock(running []operator.Diagnostics) {
	ahead := clock.Seconds(d.clock.Offset())
	for _, r := range running {
		ahead = cmp.Or(ahead, r.Clock)
	}
	if ahead != 0 {
		d.add(ClockWrong, "", "clock", fmt.Sprintf("the clock of this machine differs by %+d s from that of others", ahead))
	}
}

// check checks one offer.
type check struct {
	*diagnosis
	Offer
	// answered says that a server answered at the admin API; running is its report of
	// this offer, or nil.
	answered bool
	running  *operator.Diagnostics
}

// found adds an issue of this offer.
func (c *check) found(code Code, subject, what string) {
	c.add(code, c.Offer.Offer.ID, subject, what)
}

func (c *check) run(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() { c.service(ctx) })
	work.Go(func() { c.site(ctx) })
	work.Go(func() { c.links(ctx, c.checkouts()) })
	for _, u := range service.RailsOf[service.USDC](c.Settings) {
		work.Go(func() { c.chain(ctx, u) })
		work.Go(func() { c.facilitators(ctx, u) })
	}
	for _, b := range service.RailsOf[service.Bitcoin](c.Settings) {
		work.Go(func() { c.prices(ctx, b) })
	}
	work.Wait()
	c.server()
}

// server adds what the running server reports of the offer. It is called last: a rail
// that is not read is no issue if its cause is one.
func (c *check) server() {
	off := c.HooksOff
	if c.running != nil {
		off = c.running.WebhooksOff
	}
	for _, rail := range off {
		c.found(WebhookOff, rail, "the secret of the webhook of "+rail+" is empty")
	}
	id := c.Offer.Offer.ID
	switch {
	case !c.answered:
		return
	case c.running == nil:
		c.found(SettingsDiffer, id, "the running server has no offer "+id)
		return
	case c.running.Settings != c.Key.String():
		c.found(SettingsDiffer, id, "the running server has other settings for "+id)
	}
	for _, rail := range c.running.Rails {
		switch {
		case rail.Error == "":
		case rail.Error == observe.ErrUnverified:
			c.found(WebhookUnverified, rail.Rail, "deliveries to the webhook of "+rail.Rail+" are not signed with its secret")
		case !c.explained(rail.Rail):
			c.found(RailUnobserved, rail.Rail, fmt.Sprintf("payments by %s are not read: %.40s", rail.Rail, rail.Error))
		}
	}
}

// explained reports whether an issue says already why a rail is not read.
func (c *check) explained(rail string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.issues, func(i Issue) bool {
		return i.Offer == c.Offer.Offer.ID && i.Subject == rail || i.Code == LedgerUnwritable.Name || i.Code == LedgerLost.Name
	})
}
