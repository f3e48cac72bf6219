package payoffer

import (
	"fmt"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// accounts are where the money of the offer's rails arrives, in the order of
// the rails.
func (s *settings) accounts() []ledger.Account {
	var found []ledger.Account
	for _, rail := range s.offer.Rails {
		found = append(found, s.account(rail))
	}
	return found
}

// checkAccounts refuses two rails with one account: what was paid there would
// stand on whichever rail heard of it first.
func (s *settings) checkAccounts() error {
	rails := make(map[string]string)
	for _, a := range s.accounts() {
		if other, twice := rails[a.ID]; twice {
			return fmt.Errorf("the rails %q and %q both take money at the account %s; receipts could not be told apart, "+
				"give one of them another product", other, a.Rail, a.ID)
		}
		rails[a.ID] = a.Rail
	}
	return nil
}

// account is where the money of a rail arrives: an address or key on a chain, a
// payment link, a product. A rail of which nothing is told but by the operator
// has an account in the offer's own name, so that it is nobody else's.
func (s *settings) account(rail offer.Rail) ledger.Account {
	a := ledger.Account{Offer: s.offer.ID, Rail: rail.Name(), ID: "operator/" + s.offer.ID + "/" + rail.Name()}
	switch rail := rail.(type) {
	case *offer.USDC:
		a.ID, a.Testnet = rail.Account(), rail.Network.Test
	case *offer.Bitcoin:
		a.ID, a.Testnet = rail.Account(), rail.Test()
	case *offer.Card:
		a.Testnet = rail.TestMode
		if s.card.paymentLink != "" {
			a.ID = "stripe/" + s.card.paymentLink
		}
	case *offer.Storefront:
		if product := s.storefront(rail.Name()).product; product != "" {
			a.ID = "gumroad/" + product
		}
	}
	return a
}

// accountOf is the account of the rail named so.
func (s *settings) accountOf(name string) (ledger.Account, bool) {
	rail, ok := s.offer.Rail(name)
	if !ok {
		return ledger.Account{}, false
	}
	return s.account(rail), true
}

// storefront are the settings of the storefront named so.
func (s *settings) storefront(name string) storefrontSettings {
	for _, shop := range s.storefronts {
		if shop.rail == name {
			return shop
		}
	}
	return storefrontSettings{}
}
