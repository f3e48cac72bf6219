package desk

import (
	"context"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
)

// Announcements is how the receivers of an offer's announcements fare.
type Announcements struct {
	Offer     string     `json:"offer"`
	Receivers []receiver `json:"receivers"`
	SetAside  []aside    `json:"set_aside"` // in the order of transitions
}

// receiver is an address that is told of receipts, or "events", which are those of
// the server.
type receiver struct {
	Host      string `json:"host"`
	Behind    int64  `json:"behind"` // how many it has not taken yet, counted up to 100
	LastError string `json:"last_error,omitempty"`
}

// aside is an announcement that a receiver refused and that waits for its operator.
type aside struct {
	Seq     int64  `json:"seq"`            // names it
	Host    string `json:"host,omitempty"` // the receiver's; none where it is not configured any more
	Receipt string `json:"receipt"`        // the id of the announcement
	Kind    string `json:"kind"`           // as in payment_confirmed
	Since   string `json:"since"`          // of the first refusal (RFC 3339)
	Reason  string `json:"reason"`         // why it is not taken, as in "refused 422"
}

// AsideAction asks for something to be done with what is set aside.
type AsideAction struct {
	Offer  string `json:"offer,omitempty"` // its id; empty where there is one alone
	Action string `json:"action"`          // retry or skip
	Seq    int64  `json:"seq,omitempty"`   // 0 is all
}

// AsidesDone is the answer.
type AsidesDone struct {
	// Taken are those that their receiver has taken, Forgotten those that it will
	// not be told of, and Left those that it did not take and that stay set aside.
	Taken     []aside `json:"taken,omitempty"`
	Forgotten []aside `json:"forgotten,omitempty"`
	Left      []aside `json:"left,omitempty"`
}

// Announcements says how each receiver fares and what is set aside.
func (d *Desk) Announcements(ctx context.Context) (Announcements, error) {
	a := Announcements{Offer: d.Offer.ID, Receivers: []receiver{}, SetAside: []aside{}}
	for _, s := range d.Announcer.Sinks() {
		a.Receivers = append(a.Receivers, receiver(s))
	}
	asides, err := d.Announcer.Asides(ctx)
	if err != nil {
		return a, noLedger(err)
	}
	for _, one := range asides {
		a.SetAside = append(a.SetAside, newAside(one))
	}
	return a, nil
}

// DecideAside sends again what is set aside, once, or forgets it.
func (d *Desk) DecideAside(ctx context.Context, asked AsideAction) (done AsidesDone, err error) {
	if asked.Action != "retry" && asked.Action != "skip" {
		return done, refuse(Invalid, "the action is retry or skip")
	}
	all, err := d.Announcer.Asides(ctx)
	if err != nil {
		return done, noLedger(err)
	}
	var meant []announce.Aside
	for _, one := range all {
		if asked.Seq == 0 || asked.Seq == one.Seq {
			meant = append(meant, one)
		}
	}
	if asked.Seq != 0 && len(meant) == 0 {
		return done, refuse(Unknown, "no announcement with the number %d is set aside", asked.Seq)
	}
	if asked.Action == "retry" {
		done, err = d.retry(ctx, meant)
	} else {
		done, err = d.skip(ctx, meant)
	}
	d.Logger.Info("the operator decided about announcements that were set aside", "action", asked.Action, "seq", asked.Seq,
		"taken", len(done.Taken), "forgotten", len(done.Forgotten), "left", len(done.Left))
	return done, err
}

func (d *Desk) retry(ctx context.Context, meant []announce.Aside) (done AsidesDone, err error) {
	reasons, err := d.Announcer.Retry(ctx, meant...)
	for i, reason := range reasons {
		one := newAside(meant[i])
		if reason == "" {
			done.Taken = append(done.Taken, one)
			continue
		}
		one.Reason = reason
		done.Left = append(done.Left, one)
	}
	if err != nil {
		return done, &Error{Unavailable, "the ledger cannot be used now; what was taken may be listed still, try again", err}
	}
	return done, nil
}

func (d *Desk) skip(ctx context.Context, meant []announce.Aside) (done AsidesDone, err error) {
	for _, one := range meant {
		if err := d.Announcer.Skip(ctx, one); err != nil {
			return done, &Error{Unavailable, "the ledger cannot be used now; some may still be set aside, try again", err}
		}
		done.Forgotten = append(done.Forgotten, newAside(one))
	}
	return done, nil
}

func newAside(a announce.Aside) aside {
	return aside{Seq: a.Seq, Host: a.Host, Receipt: a.EventID(), Kind: a.Kind, Since: moment(a.Since), Reason: a.Reason}
}
