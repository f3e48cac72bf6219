package inspect

import (
	"fmt"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// told finds what the running server tells of the offer. It comes last: that a rail
// cannot be read is no finding of its own where the reason is one.
func (i *inspection) told() {
	id := i.Offer.Offer.ID
	switch {
	case !i.asked:
		for _, rail := range i.HooksOff {
			i.found(HookOff, rail, "the secret of the webhook of "+rail+" has no value in this environment")
		}
		return
	case i.running == nil:
		i.found(NotLoaded, id, "the running server has no offer "+id)
		return
	case i.running.Settings != i.Key.String():
		i.found(SettingsDiffer, id, "the running server has other settings for "+id)
	}
	for _, hook := range i.running.Hooks {
		if hook.Off {
			i.found(HookOff, hook.Rail, "the secret of the webhook of "+hook.Rail+" has no value")
		}
	}
	for _, rail := range i.running.Rails {
		switch rail.Error {
		case "":
		case observe.ErrUnverified:
			i.found(HookUnverified, rail.Rail, "deliveries to the webhook of "+rail.Rail+" are not signed with its secret"+i.lastDelivery(rail.Rail))
		case observe.ErrMalformed:
			i.found(HookMalformed, rail.Rail, "a delivery to the webhook of "+rail.Rail+" could not be read"+i.lastDelivery(rail.Rail))
		default:
			if !i.explained(rail.Rail) {
				i.found(RailUnobserved, rail.Rail, fmt.Sprintf("the rail %s is not read: %.40s", rail.Rail, rail.Error))
			}
		}
	}
}

// lastDelivery says when the last delivery to the webhook of a rail came, and what became
// of it.
func (i *inspection) lastDelivery(rail string) string {
	for _, hook := range i.running.Hooks {
		if hook.Rail == rail && hook.At != "" {
			return fmt.Sprintf(" (the last one was %.20s, %.30s)", hook.Verdict, hook.At)
		}
	}
	return ""
}

// explained reports whether it was found already why a rail is not read.
func (i *inspection) explained(rail string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.ContainsFunc(i.findings, func(f Finding) bool {
		return f.Offer == i.Offer.Offer.ID && f.Subject == rail || f.Code == LedgerRefuses || f.Code == LedgerLost
	})
}
