package diagnose

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/gate"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

// gates arrives at each gate with a pass for a minute, which it deletes.
func (c *check) gates(ctx context.Context) {
	o := c.Offer.Offer
	if len(o.Gates) == 0 || c.running == nil || c.running.Settings != c.Key || !c.running.Ledger.Writable {
		return // another issue explains it
	}
	pass, err := c.Pass(ctx, operator.PassChange{Offer: o.ID, Seconds: 60, Note: "check --live"})
	if err != nil {
		c.addIssue(GateShut, o.ID, "no pass can be made: "+err.Error())
		return
	}
	// If this fails, the pass ends by itself.
	defer func() { _, _ = c.Pass(context.WithoutCancel(ctx), operator.PassChange{Offer: o.ID, Delete: pass.ID}) }()
	_, code, _ := strings.Cut(pass.URL, gate.Parameter+"=")
	for _, g := range o.Gates {
		c.enterGate(ctx, g, code)
	}
}

// enterGate requests the start of a gate, for free and as a payer. A login in front of it is not a problem.
func (c *check) enterGate(ctx context.Context, g offer.Gate, code string) {
	var entered, paid *http.Response
	free, _, err := c.send(ctx, http.MethodGet, g.Start)
	if err == nil && free.StatusCode == http.StatusPaymentRequired { // elsewhere the link might get into a log
		entered, _, err = c.send(ctx, http.MethodGet, gate.EntryLink(g.Start, code))
	}
	if err == nil && entered != nil {
		paid, _, err = c.send(ctx, http.MethodGet, g.Start, entered.Cookies()...)
	}
	switch {
	case err != nil:
		c.unreachable(g.Origin(), err)
	case free.StatusCode == http.StatusUnauthorized:
	case free.StatusCode != http.StatusPaymentRequired:
		c.addIssue(GateOpen, g.Start, fmt.Sprintf("%s answers %d without a payment, and not 402", g.Start, free.StatusCode))
	case paid.StatusCode == http.StatusPaymentRequired, paid.StatusCode == http.StatusNotFound, paid.StatusCode == http.StatusGone:
		c.addIssue(GateShut, g.Start, fmt.Sprintf("%s answers %d to a payer", g.Start, paid.StatusCode))
	}
}
