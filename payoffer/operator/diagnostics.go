package operator

import (
	"context"
	"errors"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// stateTimeout bounds how long Diagnose waits for the ledger.
const stateTimeout = 5 * time.Second

// Diagnostics is what only the running server knows of an offer.
type Diagnostics struct {
	ID   string `json:"id"`
	Demo bool   `json:"demo,omitempty"` // its money is pretend
	// Settings is equal for equal settings, secrets included, and reveals none.
	Settings    string      `json:"settings"`
	Keys        []string    `json:"keys"` // ids of the keys in the DID document
	Ledger      LedgerState `json:"ledger"`
	Clock       int64       `json:"clock_ahead_seconds"` // proven; 0 while it is not
	Rails       []RailState `json:"rails"`
	WebhooksOff []string    `json:"webhooks_off"` // rails whose webhook's secret is empty
}

// LedgerState says whether the server can write to the ledger of an offer.
type LedgerState struct {
	Writable bool   `json:"writable"`
	Lost     string `json:"lost,omitempty"`    // its file was deleted or replaced, and where its data was saved
	Trouble  string `json:"trouble,omitempty"` // why the offer takes no payments
}

// RailState says how well a rail is observed.
type RailState struct {
	Rail  string `json:"rail"`
	Error string `json:"last_error,omitempty"` // a code
}

// Diagnose reports the state of the offer, and stores nothing.
func (d *Desk) Diagnose(ctx context.Context) Diagnostics {
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	report := d.Report()
	report.ID = d.Offer.ID
	err := d.Ledger.CheckWritable(ctx)
	if err != nil {
		d.Logger.Warn("the ledger is not writable", "error", err.Error())
	}
	trouble := d.Trouble()
	report.Ledger = LedgerState{Writable: err == nil && trouble == "", Trouble: trouble}
	if errors.Is(err, ledger.ErrLost) {
		report.Ledger.Lost = err.Error()
	}
	for _, h := range d.Health() {
		report.Rails = append(report.Rails, RailState{h.Rail, h.LastError})
	}
	return report
}
