package observe

import (
	"log/slog"
	"sync"
)

// Deliveries remembers what is wrong with the webhooks of one rail, for its
// health, and tells the log once when that begins and when it is over. Anybody
// may send to a webhook, so that what is remembered moves no sum and no state,
// hides nothing that weighs more, and ends with the next good delivery.
type Deliveries struct {
	// Option is the option that holds the secret.
	Option string
	Logger *slog.Logger

	mu      sync.Mutex
	trouble string
}

// troubles say what is wrong and what to do, and how much one weighs.
var troubles = map[string]struct {
	weight int
	words  string
}{
	ErrUnverified: {1, "deliveries to the webhook are refused: nothing proves that they come from the provider, and somebody may only be trying; " +
		"if payments are missing, give the option the secret that the provider has for this very address"},
	ErrMalformed: {2, "a genuine delivery to the webhook could not be read, and nothing of it was stored; " +
		"look in the provider's list of deliveries at what it sends, and let it send the documented events"},
	ErrLedger: {3, "deliveries to the webhook are refused: the ledger cannot be written, is its disk full? The provider sends them again"},
}

// Note takes what became of a delivery. Unverified are those alone that look like
// the provider's.
func (d *Deliveries) Note(v Verdict, detail string) {
	switch v {
	case Recorded:
		d.turn("", "", func(string) bool { return true })
	case Ignored:
		d.turn("", "", func(trouble string) bool { return trouble != ErrLedger }) // nothing was committed
	case Unverified:
		d.worse(ErrUnverified, detail)
	case Malformed:
		d.worse(ErrMalformed, detail)
	case Unavailable:
		d.worse(ErrLedger, detail)
	}
}

// LedgerAnswers notes that the ledger was used without a delivery.
func (d *Deliveries) LedgerAnswers() {
	d.turn("", "", func(trouble string) bool { return trouble == ErrLedger })
}

// Trouble is an error code, or empty.
func (d *Deliveries) Trouble() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.trouble
}

func (d *Deliveries) worse(code, detail string) {
	d.turn(code, detail, func(trouble string) bool { return troubles[code].weight > troubles[trouble].weight })
}

// turn puts a trouble, or none, in the place of one that ends.
func (d *Deliveries) turn(code, detail string, ends func(trouble string) bool) {
	d.mu.Lock()
	turned := d.trouble != code && ends(d.trouble)
	if turned {
		d.trouble = code
	}
	d.mu.Unlock()
	switch {
	case !turned:
	case code == "":
		d.Logger.Info("deliveries to the webhook are taken again")
	default:
		d.Logger.Warn(troubles[code].words, "option", d.Option, "reason", detail)
	}
}
