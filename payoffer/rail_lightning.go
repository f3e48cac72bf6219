package payoffer

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

// LightningConfig is the rail that accepts bitcoin over the Lightning network.
type LightningConfig struct {
	// The Lightning address of your wallet, such as alice@wallet.example, which is published.
	Address string `json:"address,omitempty"`
}

// UnmarshalCaddyfile reads 'lightning <address>'.
func (l *LightningConfig) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return l.options().unmarshal(d, "lightning <address>", &l.Address)
}

func (*LightningConfig) options() options { return options{} }

// provision makes the Lightning rail.
func (l *LightningConfig) provision(r *resolver, t offer.Terms, s *service.Settings) offer.Rail {
	if r.replace(l.Address) == "" {
		r.leaveOut("lightning", offer.RailLightning)
		return nil
	}
	rail := resolve(r, "lightning", l.Address, func(address string) (*offer.Lightning, error) { return offer.NewLightning(address, t.Amount) })
	if rail == nil {
		return nil
	}
	s.Rails = append(s.Rails, service.Lightning{Lightning: rail})
	return rail
}
