package ledger

import (
	"errors"
	"slices"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

var (
	// errDemo is returned by Register for real offers on a ledger that a demo has
	// written.
	errDemo = errors.New("the ledger holds the pretend payments of a demo; name another one for offers that take money")
	// errReal is returned by Register for a demo on a ledger of real offers.
	errReal = errors.New("the ledger holds accounts of real offers, beside which a demo writes nothing")
)

// setApart keeps demos and real offers on ledgers of their own. The account of
// every demo's checkout is the mark: it stays as long as the ledger, and goes along
// with its copies.
func setApart(known map[string]Account, accounts []Account) error {
	demo := slices.ContainsFunc(accounts, func(a Account) bool { return a.ID == offer.DemoAccount })
	switch _, marked := known[offer.DemoAccount]; {
	case len(known) == 0 || marked == demo:
		return nil
	case marked:
		return errDemo
	default:
		return errReal
	}
}
