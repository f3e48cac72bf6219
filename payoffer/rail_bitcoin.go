package payoffer

import (
	"cmp"
	"errors"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/bitcoin"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/rate"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// BitcoinConfig is the rail that accepts bitcoin.
type BitcoinConfig struct {
	// An address, or the extended public key of an account (xpub, zpub).
	Account string `json:"account,omitempty"`

	// The address type of an extended public key: p2wpkh (addresses begin with bc1q). An xpub
	// or tpub needs this or first_address.
	AddressType string `json:"address_type,omitempty"`

	// The first receiving address that the wallet shows. It is compared with the key's.
	FirstAddress string `json:"first_address,omitempty"`

	// Esplora endpoints from which payments are read, in this order, best on two hosts. "off":
	// the chain is not read. Default: public endpoints on two hosts.
	Esplora []string `json:"esplora,omitempty"`

	// The price sources whose median is the rate: mempool, coinbase, kraken, bitstamp. Default:
	// all.
	Rates []string `json:"rates,omitempty"`

	// The block explorer of receipts: an address to which the transaction id is appended, or
	// "off". Default: a public one of the network.
	Explorer string `json:"explorer,omitempty"`

	// The number of blocks after which a payment counts, at most 100. Default: 2.
	Confirmations int `json:"confirmations,omitempty"`

	// The time from which payments count. An earlier one is read again. Default: the first
	// start.
	Since string `json:"since,omitempty"`
}

// UnmarshalCaddyfile reads 'bitcoin <account> { ... }'.
func (b *BitcoinConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return b.options().unmarshal(d, "bitcoin <account> { ... }", &b.Account)
}

func (b *BitcoinConfig) options() options {
	return options{
		"address_type": &b.AddressType, "first_address": &b.FirstAddress, "esplora": &b.Esplora, "rates": &b.Rates,
		"explorer": &b.Explorer, "confirmations": &b.Confirmations, "since": &b.Since,
	}
}

const maxConfirmations = 100

// provision makes the Bitcoin rail.
func (b *BitcoinConfig) provision(r *resolver, t offer.Terms, s *service.Settings) offer.Rail {
	if r.replace(b.Account) == "" {
		r.leaveOut("bitcoin", offer.RailBitcoin)
		return nil
	}
	addressType := resolve(r, "bitcoin address_type", b.AddressType, func(s string) (string, error) { return s, offer.CheckAddressType(s) })
	firstAddress := resolve(r, "bitcoin first_address", b.FirstAddress, func(s string) (string, error) { return s, nil })
	rail := resolve(r, "bitcoin", b.Account, func(account string) (*offer.Bitcoin, error) {
		if err := offer.ConfirmBitcoinAccount(account, addressType, firstAddress); err != nil {
			return nil, err
		}
		return offer.NewBitcoin(account, t.Name, t.Amount)
	})
	if rail == nil {
		return nil
	}
	rates := resolveAll(r, "bitcoin rates", b.Rates, func(s string) (string, error) {
		_, err := rate.New(rate.Config{Sources: []string{s}})
		return s, err
	})
	public, published := bitcoin.DefaultEndpoints(rail), rail.Explorer
	observed := service.Bitcoin{
		Bitcoin: rail, Rates: rates,
		Esplora:       r.upstreams("bitcoin esplora", b.Esplora, public),
		Confirmations: cmp.Or(number(r, "bitcoin confirmations", b.Confirmations, maxConfirmations), bitcoin.DefaultConfirmations),
		Since:         r.since("bitcoin since", b.Since),
	}
	if rail.Extended() && len(observed.Esplora) == 0 {
		r.fail("bitcoin", errors.New("an extended public key needs esplora, because only the chain shows which address is next; remove 'esplora off', "+
			"or write a single address instead of the key"))
	}
	rail.Explorer = r.explorer("bitcoin explorer", b.Explorer, published)
	r.customized = r.customized || len(b.Rates) > 0 || b.Confirmations != 0 || observed.Since != 0 || rail.Explorer != published ||
		len(observed.Esplora) != len(public)
	s.Rails = append(s.Rails, observed)
	return rail
}
