package operator

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/report"
)

// Received is what one offer received.
type Received struct {
	ID      string          `json:"id"`
	BaseURL string          `json:"base_url"`
	Trouble string          `json:"trouble,omitempty"` // why the offer takes no payments
	Report  *report.Summary `json:"report"`            // null while the offer takes no payments
	// Facilitators are in the order of their use.
	Facilitators []Facilitator `json:"facilitators,omitempty"`
}

// Facilitator is the state of a facilitator on one network.
type Facilitator struct {
	Host    string `json:"host"`
	Network string `json:"network"` // a CAIP-2 id
	// Reason is a code: why it is not used now; empty if it is up.
	Reason string `json:"reason,omitempty"`
	// BazaarStatus is its last report on listing the offer: success, processing or rejected, with a reason.
	BazaarStatus string `json:"bazaar_status,omitempty"`
	BazaarReason string `json:"bazaar_reason,omitempty"`
}

// Received returns the report of the offer.
func (s *Service) Received(ctx context.Context) (Received, error) {
	if !s.Ledger.IsOpen() {
		return Received{}, unreadable(ledger.ErrNotOpen)
	}
	r := Received{ID: s.Offer.ID, BaseURL: s.Offer.BaseURL, Trouble: s.Trouble()}
	if r.Trouble != "" {
		return r, nil
	}
	summary, err := s.Summary(ctx)
	if err != nil {
		return Received{}, unreadable(err)
	}
	r.Report = &summary
	for _, f := range s.Facilitators() {
		r.Facilitators = append(r.Facilitators, Facilitator{f.Host, f.Network, f.Reason, f.Listing.Status, f.Listing.Reason})
	}
	return r, nil
}

// Announcements is the state of an offer's notifications.
type Announcements struct {
	Offer     string                    `json:"offer"`
	Receivers []announce.EndpointHealth `json:"receivers"`
}

// Announcements returns the state of each endpoint.
func (s *Service) Announcements(ctx context.Context) (Announcements, error) {
	behind, err := s.Ledger.Undelivered(ctx)
	if err != nil {
		return Announcements{}, unreadable(err)
	}
	return Announcements{s.Offer.ID, s.Announcer.Health(behind)}, nil
}

// TestAnnouncements sends a text, or a test message, to each endpoint. LastError is its answer, empty if the endpoint accepted.
func (s *Service) TestAnnouncements(ctx context.Context, text string) (Announcements, error) {
	return Announcements{s.Offer.ID, s.Announcer.Test(ctx, text)}, nil
}

// stateTimeout bounds how long Diagnose waits for the ledger.
const stateTimeout = 5 * time.Second

// Diagnostics is what only the running server knows of an offer.
type Diagnostics struct {
	ID   string `json:"id"`
	Demo bool   `json:"demo,omitempty"` // its money is not real
	// Settings is a hash: equal for equal settings, secrets included.
	Settings    string                    `json:"settings"`
	Keys        []string                  `json:"keys"` // ids of the keys in the DID document
	Ledger      LedgerState               `json:"ledger"`
	Clock       int64                     `json:"clock_ahead_seconds"` // 0 while it is not proven
	Rails       []RailState               `json:"rails"`
	WebhooksOff []string                  `json:"webhooks_off"` // rails whose webhook secret is empty
	Receivers   []announce.EndpointHealth `json:"receivers"`    // of notifications
	Answers     []Answer                  `json:"answers"`      // what the server sends, for comparison with what arrives
	Networks    string                    `json:"networks"`     // offer.Live.Networks
	// Rejections are the replies of 4xx to the last payments, by the host of the facilitator.
	Rejections map[string]string `json:"rejections,omitempty"`
}

// Answer is a request without a payment, and the headers that the server answers it with.
type Answer struct {
	Method string      `json:"method"`
	Path   string      `json:"path"`
	Accept string      `json:"accept"`
	Header http.Header `json:"header"`
}

// LedgerState is whether the server can write to the ledger of an offer.
type LedgerState struct {
	Writable bool   `json:"writable"`
	Lost     string `json:"lost,omitempty"`    // the file was deleted or replaced; where its data was saved
	Damaged  string `json:"damaged,omitempty"` // what is wrong with the file
	Trouble  string `json:"trouble,omitempty"` // why the offer takes no payments, or the ledger no changes
}

// RailState is how well a rail is observed.
type RailState struct {
	Rail       string `json:"rail"`
	Error      string `json:"last_error,omitempty"`  // a code
	Deliveries string `json:"deliveries,omitempty"`  // the code of the webhook, which last_error may hide
	Foreign    bool   `json:"foreign,omitempty"`     // it has payments in other currencies than its own
	OtherLinks string `json:"other_links,omitempty"` // as in observe.Health
}

// Diagnose returns the state of the offer. It stores nothing.
func (s *Service) Diagnose(ctx context.Context) Diagnostics {
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	d := s.Report()
	d.ID = s.Offer.ID
	err := s.Ledger.CheckWritable(ctx)
	if err != nil {
		s.Logger.Warn("the ledger is not writable", "error", err.Error(), "hint", "check the disk and the owner of the file, or the database")
	}
	d.Ledger.Trouble = s.Trouble()
	d.Ledger.Writable = err == nil && d.Ledger.Trouble == ""
	switch {
	case errors.Is(err, ledger.ErrLost):
		d.Ledger.Lost, d.Ledger.Trouble = err.Error(), ""
	case errors.Is(err, ledger.ErrDamaged):
		d.Ledger.Damaged = err.Error()
	case err != nil:
		d.Ledger.Trouble = cmp.Or(d.Ledger.Trouble, err.Error())
	}
	totals, _ := s.Ledger.Totals(ctx, s.Offer.ID) // else d.Ledger says it
	for _, h := range s.Health() {
		foreign := slices.ContainsFunc(totals, func(t ledger.Total) bool { return t.Rail == h.Rail && t.Currency != "" })
		d.Rails = append(d.Rails, RailState{h.Rail, h.LastError, h.Deliveries, foreign, h.OtherLinks})
	}
	waiting, _ := s.Announcements(ctx) // else d.Ledger says it
	d.Receivers = waiting.Receivers
	d.Rejections = make(map[string]string)
	for _, f := range s.Facilitators() {
		if f.Rejection != "" {
			d.Rejections[f.Host] = f.Rejection
		}
	}
	return d
}
