package payoffer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// usdcRails makes the USDC rails: the first is named usdc, the others after
// their chain.
func (h *Handler) usdcRails(r *resolver, s *settings, amount offer.USD) []offer.Rail {
	var rails []offer.Rail
	chains := make(map[int64]bool)
	for _, u := range h.USDC {
		address := r.text("usdc", u.Address, "", checkEVMAddress)
		if address == "" {
			continue
		}
		name := r.repl.ReplaceKnown(u.Network, "")
		network, err := offer.LookupNetwork(name)
		if err != nil {
			r.fail("usdc", err)
			continue
		}
		if chains[network.ChainID] {
			r.fail("usdc", fmt.Errorf("%s is given twice; one rail a chain", network.Name))
		}
		railName := "usdc"
		if len(chains) > 0 {
			railName += "-" + strconv.FormatInt(network.ChainID, 10)
		}
		chains[network.ChainID] = true
		rail, err := offer.NewUSDC(railName, network, address, amount)
		if err != nil {
			r.fail("usdc", err)
			continue
		}
		rails = append(rails, rail)
		s.usdc = append(s.usdc, u.settings(r, rail))
	}
	return rails
}

func (u *USDCConfig) settings(r *resolver, rail *offer.USDC) usdcSettings {
	option := "usdc " + rail.Network.Name
	s := usdcSettings{
		rail:      rail,
		rpc:       r.texts(option+" rpc", u.RPC, checkUpstreamOrOff),
		confirm:   evm.Level(r.text(option+" confirm", u.Confirm, string(evm.Safe), checkConfirm)),
		fromBlock: u.FromBlock,
	}
	for _, f := range u.Facilitators {
		if f == nil {
			r.fail(option, errors.New("a facilitator is null; leave it out"))
			continue
		}
		if resolved, ok := f.settings(r, option+" facilitator"); ok {
			s.facilitators = append(s.facilitators, resolved)
		}
	}
	if err := settles(rail.Network, len(s.facilitators)); err != nil {
		r.fail("usdc", err)
	}
	if len(s.facilitators) == 0 && rail.Network.Test {
		s.facilitators = []x402.FacilitatorConfig{{URL: x402.DefaultTestFacilitator}}
	}
	switch {
	case len(s.rpc) == 0:
		s.rpc = []string{rail.Network.RPC}
	case len(s.rpc) == 1 && s.rpc[0] == upstreamOff:
		s.rpc = nil
	case slices.Contains(s.rpc, upstreamOff):
		r.errs = append(r.errs, errors.New(rpcOffAlone))
	}
	return s
}

// rpcOffAlone is the mistake of an endpoint beside "off".
const rpcOffAlone = "rpc: 'off' stands alone; give endpoints or 'off'"

// check is what can be told of the rail before placeholders are resolved.
func (u *USDCConfig) check() error {
	if len(u.RPC) > 1 && slices.Contains(u.RPC, upstreamOff) {
		return errors.New(rpcOffAlone)
	}
	network, err := offer.LookupNetwork(u.Network)
	if err != nil || u.Address == "" || hasPlaceholder(u.Address) {
		return nil
	}
	given := 0
	for _, f := range u.Facilitators {
		if f.URL != "" {
			given++
		}
	}
	return settles(network, given)
}

// settles says what is missing when nobody would settle x402 payments.
func settles(n offer.Network, facilitators int) error {
	if facilitators > 0 || n.Test {
		return nil
	}
	return fmt.Errorf("%s is a main network and nobody would settle its payments; add 'facilitator <url>'", n.Name)
}

// settings resolves a facilitator; false means that it is left out.
func (f *FacilitatorConfig) settings(r *resolver, option string) (x402.FacilitatorConfig, bool) {
	c := x402.FacilitatorConfig{
		URL:     r.text(option, f.URL, "", checkUpstream),
		Timeout: time.Duration(f.Timeout),
	}
	if c.URL == "" {
		return c, false
	}
	c.KeyID = r.secret(option+" key_id", f.KeyID)
	c.KeySecret = r.secret(option+" key_secret", f.KeySecret)
	switch {
	case (f.KeyID == "") != (f.KeySecret == ""):
		r.errs = append(r.errs, errors.New(halfAKey))
	case c.KeyID == "" || c.KeySecret == "":
		c.KeyID, c.KeySecret = "", "" // off, of which the resolver warns
	}
	if f.Timeout < 0 {
		r.fail(option, errors.New("the timeout is negative"))
	}
	return c, true
}
