// Package inspect looks at the world around offers as they are configured, and says
// what is wrong with it and how to mend it. It moves no money and stores nothing: it
// asks as any client may, shows facilitators payments that cannot succeed, and asks the
// running server what only that can tell.
package inspect

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/clock"
	"github.com/payoffer/caddy-pay-offer/payoffer/desk"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

const (
	// patience bounds a whole inspection, and callPatience one call of it.
	patience, callPatience = 60 * time.Second, 10 * time.Second
	// leastFree is how much room the ledger's disk should have, in bytes: a year of
	// receipts of a busy offer, and the copy that a change of the schema may make.
	leastFree = 256 << 20
)

// World is what an inspection looks at. Every field is required.
type World struct {
	// Transport carries the calls to everybody.
	Transport http.RoundTripper
	// Resolve finds the addresses of a host.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Ask asks the running server.
	Ask func(ctx context.Context, s desk.Sounding) ([]desk.Inspection, error)
	// ClockAhead asks upstreams for the time, as service.Share.CompareClock does.
	ClockAhead func(ctx context.Context) time.Duration
	// Token is one that was never used, as desk.Sounding says.
	Token string
	Now   func() time.Time
}

// Offer is one offer of a configuration.
type Offer struct {
	*service.Settings
	// Links are the addresses that its server answers.
	Links []string
	// Sites are where its directive stands.
	Sites []Site
}

// Site is a place of the directive in a configuration.
type Site struct {
	// Hosts are those that the site is for, none for every host.
	Hosts []string
	// Listen are the addresses that its server listens at, as in "127.0.0.1:8402" and
	// ":443".
	Listen []string
	// Prefix is what is taken away from the path before the directive.
	Prefix string
}

// Finding is something that is wrong. No part of it holds a secret: of an upstream's
// address it has the host alone.
type Finding struct {
	Code string `json:"code"`
	// Offer is the id of the offer; empty for what concerns all.
	Offer string `json:"offer,omitempty"`
	// Subject is what it is about: a host, an address of ours, or a rail.
	Subject string `json:"subject"`
	// What is wrong here, and how to mend it.
	What string `json:"what"`
	Mend string `json:"mend"`
}

// Report is what an inspection found.
type Report struct {
	CheckedAt string    `json:"checkedAt"` // RFC 3339
	Offers    []Looked  `json:"offers"`
	Findings  []Finding `json:"findings"` // in the order of Codes
}

// Looked is an offer that was looked at, and what its own answers were like, for people
// to judge: the network between here and there is part of the time.
type Looked struct {
	ID            string `json:"id"`
	BaseURL       string `json:"baseUrl"`
	Answers       int    `json:"answers"`
	LargestBytes  int    `json:"largestBytes"`
	SlowestMillis int64  `json:"slowestMillis"`
}

// Run looks at everything at once. It ends after a minute at the latest, whatever hangs.
func Run(ctx context.Context, w World, offers []Offer) Report {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l := &look{World: w, client: http.Client{Transport: w.Transport, Timeout: callPatience, CheckRedirect: source.NoRedirect}}
	offers = slices.SortedFunc(slices.Values(offers), func(a, b Offer) int { return strings.Compare(a.Offer.ID, b.Offer.ID) })
	report := Report{CheckedAt: w.Now().UTC().Format(time.RFC3339), Offers: make([]Looked, len(offers))}
	running, err := w.Ask(ctx, desk.Sounding{Token: w.Token})
	if err != nil {
		l.find(Finding{Code: NotRunning, Subject: "admin API", What: err.Error()})
	}
	var work sync.WaitGroup
	for n, o := range offers {
		report.Offers[n] = Looked{ID: o.Offer.ID, BaseURL: o.Offer.BaseURL}
		if ids := sharing(offers, o.Offer.BaseURL); len(ids) > 1 {
			l.find(Finding{Code: BaseURLShared, Subject: o.Offer.BaseURL, What: o.Offer.BaseURL + " is the base_url of the offers " + strings.Join(ids, " and ")})
			continue
		}
		one := &inspection{look: l, Offer: o, asked: err == nil, looked: &report.Offers[n]}
		if i := slices.IndexFunc(running, func(i desk.Inspection) bool { return i.ID == o.Offer.ID }); i >= 0 {
			one.running = &running[i]
		}
		if one.running != nil && one.running.Demo {
			one.found(PlaysDemo, o.Offer.ID, "this is a demo: the running server pretends all that "+o.Offer.ID+" needs")
			continue
		}
		work.Go(func() { one.run(ctx) })
	}
	work.Go(func() { l.machine(ctx, running) })
	work.Wait()
	report.Findings = l.sorted()
	return report
}

// sharing are the ids of the offers with a base_url.
func sharing(offers []Offer, base string) (ids []string) {
	for _, o := range offers {
		if o.Offer.BaseURL == base {
			ids = append(ids, o.Offer.ID)
		}
	}
	return ids
}

// look is an inspection under way.
type look struct {
	World
	client   http.Client
	mu       sync.Mutex
	findings []Finding
}

// find adds a finding, and how to mend it.
func (l *look) find(f Finding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.Mend = Codes[position(f.Code)].Mend
	if !slices.Contains(l.findings, f) {
		l.findings = append(l.findings, f)
	}
}

func position(code string) int {
	return slices.IndexFunc(Codes, func(c Code) bool { return c.Name == code })
}

// sorted are the findings in the order of the codes.
func (l *look) sorted() []Finding {
	slices.SortFunc(l.findings, func(a, b Finding) int {
		return cmp.Or(position(a.Code)-position(b.Code), strings.Compare(a.Offer, b.Offer), strings.Compare(a.Subject, b.Subject), strings.Compare(a.What, b.What))
	})
	return append([]Finding{}, l.findings...)
}

// machine looks at what all offers share: the clock, and the ledger with its disk.
func (l *look) machine(ctx context.Context, running []desk.Inspection) {
	ahead := clock.Seconds(l.ClockAhead(ctx))
	for _, i := range running {
		ahead = cmp.Or(ahead, i.Clock)
	}
	if ahead != 0 {
		l.find(Finding{Code: ClockWrong, Subject: "clock", What: clockWords(ahead)})
	}
	for _, i := range running {
		switch {
		case i.Ledger.Lost != "":
			l.find(Finding{Code: LedgerLost, Subject: "ledger", What: i.Ledger.Lost})
		case !i.Ledger.Writable:
			l.find(Finding{Code: LedgerRefuses, Subject: "ledger", What: strings.TrimSuffix("the running server cannot begin a change of its ledger: "+i.Ledger.Trouble, ": ")})
		}
		if free := i.Ledger.Free; free >= 0 && free < leastFree {
			l.find(Finding{Code: DiskLow, Subject: "ledger", What: megabytes(free) + " are left for the ledger"})
		}
	}
}

// inspection looks at one offer.
type inspection struct {
	*look
	Offer
	// asked says that a server answered at the admin API, and running what it told of
	// this offer; nil for nothing.
	asked   bool
	running *desk.Inspection
	looked  *Looked
}

// found adds a finding of this offer.
func (i *inspection) found(code, subject, what string) {
	i.find(Finding{Code: code, Offer: i.Offer.Offer.ID, Subject: subject, What: what})
}

func (i *inspection) run(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() { i.service(ctx) })
	work.Go(func() { i.site(ctx) })
	work.Go(func() { i.elsewhere(ctx) })
	for _, u := range i.USDC {
		work.Go(func() { i.chain(ctx, u) })
		work.Go(func() { i.facilitators(ctx, u) })
	}
	work.Go(func() { i.prices(ctx) })
	work.Wait()
	i.told()
}
