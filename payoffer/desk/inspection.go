package desk

import (
	"context"
	"errors"
	"regexp"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// stateTimeout bounds how long Inspect waits for the ledger.
const stateTimeout = 5 * time.Second

// Sounding asks how the offers are. Its token, 32 hexadecimal digits in lower
// case that nobody guesses, names what a check sends through their public addresses: from the first time
// that a server is told of one it notes, in memory alone and for two minutes, what of it
// arrives.
type Sounding struct {
	Token string `json:"token"`
}

// tokenForm is the form of a sounding's token.
var tokenForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

// Check refuses a sounding whose token others could guess.
func (s Sounding) Check() error {
	if !tokenForm.MatchString(s.Token) {
		return refuse(Invalid, "token must be 32 hexadecimal digits, random and in lower case, as of: openssl rand -hex 16")
	}
	return nil
}

// Inspection is what the running server alone can tell of an offer.
type Inspection struct {
	ID   string `json:"id"`
	Demo bool   `json:"demo,omitempty"` // everything behind it is pretend
	// Settings is equal for equal settings, secrets included, of which it tells
	// nothing.
	Settings string      `json:"settings"`
	Keys     []string    `json:"keys"` // the ids of those that the DID document lists
	Ledger   LedgerState `json:"ledger"`
	Clock    int64       `json:"clock_ahead_seconds"` // proven; 0 while it is not
	Rails    []RailState `json:"rails"`
	Hooks    []HookState `json:"webhooks"`
	Arrivals []Arrival   `json:"arrivals"`
}

// LedgerState says whether a change would be taken, of this offer.
type LedgerState struct {
	Shared   bool   `json:"shared"` // other instances may use it
	Writable bool   `json:"writable"`
	Lost     string `json:"lost,omitempty"`       // that its file was deleted or replaced, and where its payments were saved
	Trouble  string `json:"trouble,omitempty"`    // why the offer takes no payments
	Changed  string `json:"changed_at,omitempty"` // when a receipt was changed last (RFC 3339)
	Free     int64  `json:"free_bytes"`           // on its disk; -1 where that is not known
}

// RailState says how well a rail is observed.
type RailState struct {
	Rail  string `json:"rail"`
	Error string `json:"last_error,omitempty"` // a code
}

// HookState is what became of the last delivery to a webhook.
type HookState struct {
	Rail    string `json:"rail"`
	Off     bool   `json:"off,omitempty"`     // its secret has no value
	Verdict string `json:"verdict,omitempty"` // empty for none since the start
	At      string `json:"at,omitempty"`      // RFC 3339
}

// Arrival is a request of a sounding as it arrived.
type Arrival struct {
	Method string `json:"method"`
	// Peer is who connected, and Counted the address that rate_limit counts.
	Peer    string `json:"peer"`
	Counted string `json:"counted"`
	// Forwarded says that a header names somebody for whom the peer asks, and Itself
	// that it is the peer's own address, as of who asks on the machine of a proxy.
	Forwarded bool `json:"forwarded"`
	Itself    bool `json:"itself,omitempty"`
	// Encrypted says that the connection is.
	Encrypted bool `json:"encrypted"`
}

// Inspect says how the offer is, and stores nothing.
func (d *Desk) Inspect(ctx context.Context, s Sounding) Inspection {
	ctx, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	i := d.Look(s)
	i.ID = d.Offer.ID
	state, err := d.Ledger.State(ctx)
	if err != nil {
		d.Logger.Warn("the ledger would not take a change", "error", err.Error())
	}
	trouble, lost := d.Trouble(), ""
	if errors.Is(err, ledger.ErrLost) {
		lost = err.Error()
	}
	i.Ledger = LedgerState{Shared: state.Shared, Writable: err == nil && trouble == "", Lost: lost, Trouble: trouble, Free: state.Free}
	if state.Changed > 0 {
		i.Ledger.Changed = moment(state.Changed)
	}
	for _, h := range d.Health() {
		i.Rails = append(i.Rails, RailState{h.Rail, h.LastError})
	}
	return i
}
