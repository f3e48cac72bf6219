package offer

import (
	"cmp"
	"net/url"
	"time"
)

// Gate is a route that a payment of the offer opens (pay_offer_gate).
type Gate struct {
	// Start is the URL at which a payer arrives. The gate's origin is that of Start.
	Start string
	// Access is how long one payment opens the gate.
	Access time.Duration
	// ChargeFirst: a payment is charged before the application runs, and otherwise after its status.
	ChargeFirst bool
}

// Origin is the scheme, host and port of the gated site.
func (g Gate) Origin() string {
	u, err := url.Parse(g.Start)
	if err != nil {
		return ""
	}
	return Origin(u)
}

// Path is the escaped path of Start, without its query.
func (g Gate) Path() string {
	u, err := url.Parse(g.Start)
	if err != nil {
		return ""
	}
	return cmp.Or(u.EscapedPath(), "/")
}
