package service

import (
	"fmt"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Settings are what an offer is put to work with. They hold secrets and are
// never logged.
type Settings struct {
	// Key is equal for equal settings, whatever the day.
	Key   pool.Key
	Offer *offer.Offer
	USDC  []USDC
	// Rates are the names of the price sources; none means all.
	Rates       []string
	Bitcoin     Bitcoin
	Card        Card
	Storefronts []Storefront
	// HooksOff are the rails whose webhook's secret is configured without a value.
	HooksOff []string
	Announce []announce.Endpoint
	Limit    x402.Limit
	// KeysPath is where the signing keys of the domain stand in the storage.
	KeysPath string
	// OwnPayers are the operator's own addresses in EIP-55 form.
	OwnPayers []string
}

// USDC says how a USDC rail is settled and observed.
type USDC struct {
	Rail         *offer.USDC
	Facilitators []x402.FacilitatorConfig
	// RPC are the JSON-RPC endpoints, none when the chain is not read.
	RPC       []string
	Confirm   evm.Level
	FromBlock uint64
}

// Bitcoin says how the Bitcoin rail is observed.
type Bitcoin struct {
	// Esplora are the endpoints, none when the chain is not read.
	Esplora       []string
	Confirmations int
	// Since is from when on money counts, in Unix seconds; 0 is from the first
	// start on, here and below.
	Since int64
}

// Card says how the card rail is observed.
type Card struct {
	WebhookSecret, APIKey string
	Since                 int64
}

// observed reports whether anything is told of payments.
func (c Card) observed() bool { return c.WebhookSecret != "" || c.APIKey != "" }

// Storefront says how a storefront is observed.
type Storefront struct {
	Rail                      *offer.Storefront
	Seller, HookSecret, Token string
	Since                     int64
}

// observed reports whether anything is told of sales.
func (s Storefront) observed() bool { return s.HookSecret != "" || s.Token != "" }

// Accounts are where the money of the rails arrives, in the order of the rails.
func (s *Settings) Accounts() []ledger.Account {
	var found []ledger.Account
	for _, rail := range s.Offer.Rails {
		found = append(found, s.account(rail))
	}
	return found
}

// account is where the money of a rail arrives.
func (s *Settings) account(rail offer.Rail) ledger.Account {
	return ledger.Account{Offer: s.Offer.ID, ID: s.Offer.AccountOf(rail), Rail: rail.Name(), Testnet: rail.Test()}
}

// Check refuses two rails with one account: what was paid there would stand on
// whichever rail heard of it first.
func (s *Settings) Check() error {
	rails := make(map[string]string)
	for _, a := range s.Accounts() {
		if other, twice := rails[a.ID]; twice {
			return fmt.Errorf("the rails %q and %q both take money at the account %s; receipts could not be told apart, "+
				"give one of them another product", other, a.Rail, a.ID)
		}
		rails[a.ID] = a.Rail
	}
	return nil
}

// own reports whether an EVM address is one of the operator's own.
func (s *Settings) own(address string) bool {
	return slices.ContainsFunc(s.OwnPayers, func(own string) bool { return strings.EqualFold(own, address) })
}
