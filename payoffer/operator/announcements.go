package operator

import "context"

// Announcements is how the receivers of an offer's announcements fare.
type Announcements struct {
	Offer     string     `json:"offer"`
	Receivers []receiver `json:"receivers"`
}

// receiver is an address that is told of receipts, or "events", which are those of
// the server.
type receiver struct {
	Host      string `json:"host"`
	Behind    int64  `json:"behind"` // how many it has not taken yet, counted up to 100
	LastError string `json:"last_error,omitempty"`
}

// Announcements reports the state of each receiver.
func (d *Desk) Announcements(context.Context) (Announcements, error) {
	a := Announcements{Offer: d.Offer.ID, Receivers: []receiver{}}
	for _, s := range d.Announcer.Health() {
		a.Receivers = append(a.Receivers, receiver(s))
	}
	return a, nil
}
