package payoffer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"golang.org/x/net/http/httpguts"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// USDCConfig is a rail that accepts USDC on one EVM chain.
type USDCConfig struct {
	// The chain: a name such as base, or the CAIP-2 id, such as eip155:8453.
	Network string `json:"network,omitempty"`

	// The receiving address.
	Address string `json:"address,omitempty"`

	// The services that verify and settle x402 payments, tried in order. Required; default on
	// test networks: https://www.x402.org/facilitator.
	Facilitators []*FacilitatorConfig `json:"facilitators,omitempty"`

	// JSON-RPC endpoints from which payments are read. "off": x402 payments are never proven.
	// Default: a public endpoint of the chain.
	RPC []string `json:"rpc,omitempty"`

	// The block from which a payment counts: latest, safe or finalized. Default: safe.
	Confirm string `json:"confirm,omitempty"`

	// The block explorer of receipts: an address to which the transaction hash is appended, or
	// "off". Default: a public one of the chain.
	Explorer string `json:"explorer,omitempty"`

	// The block from which payments count. An earlier one is read again; a later one is ignored.
	// Default: that of the first start.
	FromBlock uint64 `json:"from_block,omitempty"`
}

// FacilitatorConfig is an x402 facilitator.
type FacilitatorConfig struct {
	// The base URL, to which /verify and /settle are appended. Required.
	URL string `json:"url,omitempty"`

	// The id of an API key of Coinbase (CDP).
	KeyID secret `json:"key_id,omitempty"`

	// Its secret. Required with key_id.
	KeySecret secret `json:"key_secret,omitempty"`

	// A header that authenticates each call, instead of key_id. Default: none.
	Header string `json:"header,omitempty"`

	// Its value.
	HeaderValue secret `json:"header_value,omitempty"`

	// The longest duration of one call. Default: 30s.
	Timeout caddy.Duration `json:"timeout,omitempty"`
}

// UnmarshalCaddyfile reads 'usdc <network> <address> { ... }'.
func (u *USDCConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return u.options().unmarshal(d, "usdc <network> <address> { ... }", &u.Network, &u.Address)
}

func (u *USDCConfig) options() options {
	return options{
		"facilitator": &u.Facilitators, "rpc": &u.RPC, "confirm": &u.Confirm, "explorer": &u.Explorer, "from_block": &u.FromBlock,
	}
}

// UnmarshalCaddyfile reads 'facilitator <url> { ... }'.
func (f *FacilitatorConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return f.options().unmarshal(d, "facilitator <url> { ... }", &f.URL)
}

func (f *FacilitatorConfig) options() options {
	return options{
		"key_id": &f.KeyID, "key_secret": &f.KeySecret, "timeout": &f.Timeout,
		"header": &form{"header <name> <value>", []*string{&f.Header, (*string)(&f.HeaderValue)}},
	}
}

// provision makes the rail of one chain. The first rail is named usdc, each other one
// after its chain.
func (u *USDCConfig) provision(r *resolver, t offer.Terms, s *service.Settings) offer.Rail {
	network := resolve(r, "usdc", u.Network, func(s string) (offer.Network, error) {
		if strings.HasPrefix(s, "0x") {
			return offer.Network{}, errors.New("the network must come before the address; write for example 'usdc base 0x…'")
		}
		return offer.LookupNetwork(s)
	})
	chainName := "usdc-" + strconv.FormatInt(network.ChainID, 10)
	name := "usdc " + network.Name
	if r.replace(u.Address) == "" {
		r.leaveOut(name, "usdc", chainName)
		return nil
	}
	if network.Name == "" {
		if r.replace(u.Network) == "" {
			r.fail("usdc", unset(u.Network, "the network is empty", "write it before the address, such as 'usdc base 0x…'"))
		}
		return nil
	}
	address := resolve(r, name, u.Address, offer.ParseEVMAddress)
	c := service.USDC{
		RPC:       r.upstreams(name+" rpc", u.RPC, []string{network.RPC}),
		Confirm:   cmp.Or(resolve(r, name+" confirm", u.Confirm, evm.ParseLevel), evm.Safe),
		FromBlock: number(r, name+" from_block", u.FromBlock, 1<<63-1),
	}
	explorer := r.explorer(name+" explorer", u.Explorer, network.Explorer)
	for i, f := range withoutNil(u.Facilitators) {
		if facilitator := f.provision(r, entry(name+" facilitator", i, len(u.Facilitators))); facilitator.URL != "" {
			c.Facilitators = append(c.Facilitators, facilitator)
		}
	}
	r.customized = r.customized || !network.Test || c.Facilitators != nil || !slices.Equal(c.RPC, []string{network.RPC}) ||
		c.Confirm != evm.Safe || explorer != network.Explorer || c.FromBlock != 0
	switch {
	case c.Facilitators == nil && network.Test:
		c.Facilitators = []x402.FacilitatorConfig{{URL: x402.DefaultTestFacilitator, Timeout: defaultTimeout}}
	case c.Facilitators == nil:
		r.fail(name, fmt.Errorf("%s is a main network, where a facilitator must settle payments; add one, such as 'facilitator https://api.cdp.coinbase.com/platform/v2/x402'", network.Name))
	}
	railName := "usdc"
	for _, other := range service.RailsOf[service.USDC](s) {
		railName = chainName
		if other.Network.ChainID == network.ChainID {
			r.fail(name, errors.New("two usdc options name this network; keep one of them"))
		}
	}
	var err error
	if c.USDC, err = offer.NewUSDC(railName, network, address, t.Amount); err != nil {
		if address != "" { // else it was reported
			r.fail(name, err)
		}
		return nil
	}
	c.Explorer = explorer
	s.Rails = append(s.Rails, c)
	return c.USDC
}

const defaultTimeout = 30 * time.Second

// provision resolves a facilitator. Its authentication is off if a part of it has no value.
func (f *FacilitatorConfig) provision(r *resolver, name string) x402.FacilitatorConfig {
	c := x402.FacilitatorConfig{URL: r.upstream(name, f.URL)}
	if c.URL == "" {
		return c
	}
	switch {
	case (f.KeyID == "") != (f.KeySecret == ""):
		r.fail(name, errors.New("key_id and key_secret are needed together; add the missing one, such as 'key_secret {env.CDP_KEY_SECRET}', or remove both"))
	case (f.Header == "") != (f.HeaderValue == ""):
		r.fail(name, errors.New("a header needs a name and a value; write it as: header x-secret-key {env.SETTLER_KEY}"))
	case f.KeyID != "" && f.Header != "":
		r.fail(name, errors.New("header and key_id both authenticate the calls; keep the one that your facilitator asks for"))
	}
	c.KeyID, c.KeySecret = r.secret(name+" key_id", f.KeyID), r.secret(name+" key_secret", f.KeySecret)
	if c.KeyID == "" || c.KeySecret == "" {
		c.KeyID, c.KeySecret = "", ""
	} else if _, err := x402.NewFacilitator(c); err != nil { // the address was checked
		r.fail(name+" key_secret", errors.Unwrap(err))
	}
	c.Header = resolve(r, name+" header", f.Header, parseHeader)
	if c.HeaderValue = r.secret(name+" header", f.HeaderValue); c.HeaderValue == "" {
		c.Header = ""
	} else if !httpguts.ValidHeaderFieldValue(c.HeaderValue) {
		r.fail(name+" header", errors.New("the value contains a character that no header accepts, such as a line break; copy it again"))
	}
	c.Timeout = cmp.Or(r.duration(name+" timeout", f.Timeout), defaultTimeout)
	return c
}

// parseHeader checks the name of a request header that the call itself does not set.
func parseHeader(s string) (string, error) {
	switch {
	case !httpguts.ValidHeaderFieldName(s):
		return "", errors.New("this is not the name of a header; write 'header <name> <value>', such as 'header x-secret-key {env.SETTLER_KEY}'")
	case slices.Contains([]string{"host", "content-type", "content-length", "transfer-encoding", "connection"}, strings.ToLower(s)):
		return "", fmt.Errorf("the header %s is set by every call; write the header that carries your key, such as x-secret-key", s)
	}
	return s, nil
}

// demoRail returns the rail of a demo.
func (u *USDCConfig) demoRail(sandbox *Sandbox) railConfig {
	return &USDCConfig{
		Network: u.Network, Address: u.Address, Facilitators: []*FacilitatorConfig{{URL: sandbox.Facilitator}}, RPC: []string{off}, Explorer: off,
	}
}
