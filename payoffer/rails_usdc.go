package payoffer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func (u *USDCConfig) options() block {
	return block{
		"facilitator": {parse: u.parseFacilitator, resolve: u.resolveFacilitators, repeats: true},
		"rpc":         list(&u.RPC, checkUpstreamOrOff),
		"confirm":     text(&u.Confirm, checkConfirm),
		"explorer":    text(&u.Explorer, checkExplorer),
		"from_block":  number(&u.FromBlock, 1, 1<<63-1, "a block from 1 on; leave it out to begin with the first start"),
	}
}

func (h *Handler) parseUSDC(d *caddyfile.Dispenser) error {
	u := new(USDCConfig)
	if err := parseArguments(d, "usdc", argument{&u.Network, checkNetwork}, argument{&u.Address, checkEVMAddress}); err != nil {
		return err
	}
	for _, other := range h.USDC {
		if sameChain(u.Network, other.Network) {
			return d.Errf("usdc: %s is given twice; one line a chain", u.Network)
		}
	}
	h.USDC = append(h.USDC, u)
	if err := u.options().parse(d, "usdc"); err != nil {
		return err
	}
	if err := u.check(); err != nil {
		return d.Errf("usdc: %v", err)
	}
	return nil
}

// sameChain reports whether two networks, by name or CAIP-2 id, are one known
// chain.
func sameChain(a, b string) bool {
	one, err := offer.LookupNetwork(a)
	if err != nil {
		return false
	}
	other, err := offer.LookupNetwork(b)
	return err == nil && one.ChainID == other.ChainID
}

// check finds what several options together make wrong, as far as they are
// known already.
func (u *USDCConfig) check() error {
	if err := aloneIfOff("rpc", u.RPC); err != nil {
		return err
	}
	network, err := offer.LookupNetwork(u.Network)
	if err != nil || u.Address == "" || hasPlaceholder(u.Address) || network.Test {
		return nil
	}
	if !slices.ContainsFunc(u.Facilitators, func(f *FacilitatorConfig) bool { return f.URL != "" }) {
		return fmt.Errorf("%s is a main network and nobody would settle its payments; add 'facilitator <url>'", network.Name)
	}
	return nil
}

// aloneIfOff refuses an endpoint beside "off".
func aloneIfOff(option string, endpoints []string) error {
	if len(endpoints) > 1 && slices.Contains(endpoints, upstreamOff) {
		return errors.New(option + ": 'off' stands alone; give endpoints or 'off'")
	}
	return nil
}

func (h *Handler) resolveUSDC(r *resolver, name string) {
	chains := make(map[int64]bool)
	h.USDC = keep(r, name, h.USDC, func(u *USDCConfig) bool {
		r.text(name, &u.Address, checkEVMAddress)
		u.Network = r.replace(name, u.Network)
		network, _ := offer.LookupNetwork(u.Network)
		if u.Address == "" {
			r.leftOut = append(r.leftOut, firstUSDC, nextUSDC(network))
			return false
		}
		if err := checkNetwork(u.Network); err != nil {
			r.fail(name, err)
			return false
		}
		if chains[network.ChainID] {
			r.fail(name, fmt.Errorf("%s is given twice; one rail a chain", network.Name))
		}
		chains[network.ChainID] = true
		u.options().resolve(r, name+" "+network.Name)
		if err := u.check(); err != nil {
			r.fail(name, err)
		}
		return true
	})
}

func (f *FacilitatorConfig) options() block {
	return block{
		"key_id":     secret(&f.KeyID),
		"key_secret": secret(&f.KeySecret),
		"header":     {parse: f.parseHeader, resolve: f.resolveHeader},
		"timeout":    duration(&f.Timeout),
	}
}

func (u *USDCConfig) parseFacilitator(d *caddyfile.Dispenser) error {
	f := new(FacilitatorConfig)
	u.Facilitators = append(u.Facilitators, f)
	if err := text(&f.URL, checkUpstream).parse(d); err != nil {
		return err
	}
	if err := f.options().parse(d, "facilitator"); err != nil {
		return err
	}
	if err := f.checkKey(); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

func (f *FacilitatorConfig) parseHeader(d *caddyfile.Dispenser) error {
	return parseArguments(d, "header", argument{&f.Header, checkHeader}, argument{&f.HeaderValue, checkHeaderValue})
}

func (f *FacilitatorConfig) resolveHeader(r *resolver, name string) {
	r.text(name, &f.Header, checkHeader)
	r.secret(name, &f.HeaderValue)
	if err := checkHeaderValue(f.HeaderValue); err != nil {
		r.fail(name, err)
	}
	if f.HeaderValue == "" {
		f.Header = "" // off, of which the resolver warns
	}
}

// checkKey finds what is wrong with the key as a whole.
func (f *FacilitatorConfig) checkKey() error {
	switch {
	case f.halfAKey():
		return errors.New(halfAKey)
	case (f.Header == "") != (f.HeaderValue == ""):
		return errors.New(halfAHeader)
	case f.KeyID != "" && f.Header != "":
		return errors.New(keyAndHeader)
	}
	return nil
}

func (f *FacilitatorConfig) halfAKey() bool { return (f.KeyID == "") != (f.KeySecret == "") }

func (u *USDCConfig) resolveFacilitators(r *resolver, name string) {
	u.Facilitators = keep(r, name, u.Facilitators, func(f *FacilitatorConfig) bool {
		if r.text(name, &f.URL, checkUpstream); f.URL == "" {
			return false
		}
		if err := f.checkKey(); err != nil {
			r.errs = append(r.errs, err)
		}
		if f.options().resolve(r, name); f.halfAKey() {
			f.KeyID, f.KeySecret = "", "" // off, of which the resolver warns
		}
		return true
	})
}
