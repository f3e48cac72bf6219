package service

import (
	"fmt"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Settings are the resolved options of one offer. They contain secrets and are never
// logged.
type Settings struct {
	// Key is equal for equal options, on any day.
	Key   pool.Key
	Offer *offer.Offer
	// Rails are those rails of the offer that say how their payments are observed.
	Rails []Rail
	// HooksOff are the rails whose webhook secret is configured and empty.
	HooksOff []string
	Announce []announce.Sink
	Limit    x402.Limit
	// KeysPath is where the storage keeps the signing keys of the domain.
	KeysPath string
	// OwnPayers are the operator's own addresses in EIP-55 form.
	OwnPayers []string
}

// Accounts are where the rails receive money, in the order of the rails.
func (s *Settings) Accounts() (found []ledger.Account) {
	for _, rail := range s.Offer.Rails {
		found = append(found, s.account(rail))
	}
	return found
}

func (s *Settings) account(rail offer.Rail) ledger.Account {
	return ledger.Account{Offer: s.Offer.ID, ID: s.Offer.AccountOf(rail), Rail: rail.Name(), Testnet: rail.Test()}
}

// Check refuses two rails with one account, because a payment could be of either.
func (s *Settings) Check() error {
	rails := make(map[string]string)
	for _, a := range s.Accounts() {
		if other, twice := rails[a.ID]; twice {
			return fmt.Errorf("the rails %q and %q both receive money at the account %s; give one of them another product", other, a.Rail, a.ID)
		}
		rails[a.ID] = a.Rail
	}
	return nil
}

// own reports whether an EVM address is one of the operator's own.
func (s *Settings) own(address string) bool {
	return slices.ContainsFunc(s.OwnPayers, func(own string) bool { return strings.EqualFold(own, address) })
}
