package observe

import (
	"log/slog"
	"sync"
)

// Deliveries has the error code of one rail's webhook for its health, and logs when it changes.
// Anyone can send to a webhook, so an error changes no sum, does not replace a worse one, and
// ends with the next good delivery.
type Deliveries struct {
	// Option is the option of the webhook's secret.
	Option string
	Logger *slog.Logger

	mu      sync.Mutex
	trouble string
}

// troubles describes the error codes of deliveries. A greater weight is worse.
var troubles = map[string]struct {
	weight        int
	message, hint string
}{
	ErrUnverified: {1, "webhook deliveries are rejected", "if payments are missing, " +
		"copy the secret of this webhook address from the provider again"},
	ErrClock: {2, "webhook deliveries are rejected because of the clock", "set this machine's clock by NTP; the secret is right, " +
		"and the provider repeats the deliveries"},
	ErrMalformed: {3, "webhook delivery cannot be read", "select only the documented events in the provider's dashboard"},
	ErrLedger:    {4, "ledger cannot store webhook deliveries", "check the disk or the database; the provider repeats the deliveries"},
}

// Update sets the error code after a delivery. Call it for an unverified delivery only if that
// looks like the provider's.
func (d *Deliveries) Update(v Verdict, detail string) {
	switch v {
	case Recorded:
		d.replace("", "", func(string) bool { return true })
	case Ignored:
		d.replace("", "", func(trouble string) bool { return trouble != ErrLedger }) // nothing was stored
	case Unverified:
		d.Worsen(ErrUnverified, detail)
	case Malformed:
		d.Worsen(ErrMalformed, detail)
	case Unavailable:
		d.Worsen(ErrLedger, detail)
	}
}

// ClearLedgerError ends ErrLedger, because the ledger has worked without a delivery.
func (d *Deliveries) ClearLedgerError() {
	d.replace("", "", func(trouble string) bool { return trouble == ErrLedger })
}

// Trouble returns the error code, or empty.
func (d *Deliveries) Trouble() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.trouble
}

// Worsen sets an error code unless the present one is worse.
func (d *Deliveries) Worsen(code, detail string) {
	d.replace(code, detail, func(trouble string) bool { return troubles[code].weight > troubles[trouble].weight })
}

// replace sets the error code, or an empty one, if ends reports that the present one ends.
func (d *Deliveries) replace(code, detail string, ends func(trouble string) bool) {
	d.mu.Lock()
	changed := d.trouble != code && ends(d.trouble)
	if changed {
		d.trouble = code
	}
	d.mu.Unlock()
	switch {
	case !changed:
	case code == "":
		d.Logger.Info("webhook deliveries are accepted again")
	default:
		d.Logger.Warn(troubles[code].message, "option", d.Option, "reason", detail, "hint", troubles[code].hint)
	}
}
