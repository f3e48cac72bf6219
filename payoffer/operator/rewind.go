package operator

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// Rewind asks for a rail to be read again from its origin on.
type Rewind struct {
	Offer string `json:"offer,omitempty"` // its id; empty where there is one alone
	Rail  string `json:"rail"`
}

// Rewound is the answer.
type Rewound struct {
	Offer string `json:"offer"`
	Rail  string `json:"rail"`
	// From is where the reading begins, as in "block 43000000" or a moment; empty
	// while nothing was read yet.
	From string `json:"from,omitempty"`
	// Kept is the address that an extended key published, which is read on
	// whatever the search of the chain finds; empty for none.
	Kept string `json:"kept,omitempty"`
}

// rereads are the sources (observe.Health) that can be read again.
var rereads = []string{"chain", "provider"}

// Rewind has a rail read again from the origin of its account on: for what was
// misread, and for a position that was false. The observer takes it up with its next
// round. Receipts stay, and what is read again is counted once.
func (d *Desk) Rewind(ctx context.Context, r Rewind) (Rewound, error) {
	var names []string
	for _, a := range d.Accounts {
		names = append(names, a.Rail)
	}
	i := slices.Index(names, r.Rail)
	if i < 0 {
		return Rewound{}, refuse(Unknown, "no rail is named %.40q; there are: %s", r.Rail, strings.Join(names, ", "))
	}
	source := ""
	for _, h := range d.Health() {
		if h.Rail == r.Rail {
			source = h.Source
		}
	}
	if !slices.Contains(rereads, source) {
		return Rewound{}, refuse(Conflict, "nothing reads the rail %s back, so that there is nothing to rewind: "+
			"its money is entered by hand, or told by messages alone, or its reading is off; the documentation says which option reads a rail", r.Rail)
	}
	d.acting.Lock()
	defer d.acting.Unlock()
	done, rewound, err := d.rewind(ctx, d.Accounts[i], source)
	if err != nil {
		return Rewound{}, noLedger(err)
	}
	if !rewound {
		return Rewound{}, refuse(Conflict, "nothing of the rail %s was read yet, so that there is nothing to read again: "+
			"as soon as its source answers it is read from where it begins (the options since and from_block)", r.Rail)
	}
	if done.Kept != "" {
		d.Follow()
	}
	d.Logger.Info("the operator rewound a rail", "rail", r.Rail, "from", done.From)
	return done, nil
}

func (d *Desk) rewind(ctx context.Context, configured ledger.Account, source string) (Rewound, bool, error) {
	done := Rewound{Offer: d.Offer.ID, Rail: configured.Rail}
	account, err := d.Ledger.Account(ctx, d.Offer.ID, configured.ID)
	if err != nil {
		return done, false, err
	}
	if origin, err := strconv.ParseInt(account.Origin, 10, 64); err == nil {
		done.From = moment(origin)
		if source == "chain" {
			done.From = fmt.Sprintf("block %d", origin+1) // the origin is the last that does not count
		}
	}
	if b := d.Offer.Bitcoin(); b != nil && b.Name() == account.Rail && b.Extended() {
		// The search may end before it: it becomes an account of its own.
		if done.Kept = d.Address(); done.Kept != "" {
			kept := account
			kept.ID = b.CAIP2() + "/" + done.Kept
			if err := d.Ledger.Register(ctx, kept); err != nil {
				return done, false, err
			}
		}
	}
	rewound, err := d.Ledger.Rewind(ctx, d.Offer.ID, account.ID)
	return done, rewound, err
}
