package service

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// Settings are the resolved options of one offer. They contain secrets and are never
// logged.
type Settings struct {
	// Key is equal for equal options, on any day.
	Key   string
	Offer *offer.Offer
	// Rails are those rails of the offer that say how their payments are observed.
	Rails []Rail
	// HooksOff are the rails whose webhook secret is configured and empty.
	HooksOff []string
	// LeftOut are the options of the rails whose address is empty.
	LeftOut  []string
	Announce []announce.Endpoint
	Limit    x402.Limit
	// KeysPath is where the storage keeps the signing keys of the domain.
	KeysPath string
	// OwnPayers are the operator's own addresses in EIP-55 form.
	OwnPayers []string
}

// Accounts are where the rails receive money, in the order of the rails.
func (s *Settings) Accounts() (found []ledger.Account) {
	for _, rail := range s.Offer.Rails {
		found = append(found, ledger.Account{Offer: s.Offer.ID, ID: s.Offer.AccountOf(rail), Rail: rail.Name(), Testnet: rail.Test()})
	}
	return found
}

// Check finds mistakes that no option alone shows, such as two rails with one account,
// because a payment could belong to either.
func (s *Settings) Check() error {
	rails := make(map[string]string)
	for _, a := range s.Accounts() {
		if other, twice := rails[a.ID]; twice {
			return fmt.Errorf("the rails %q and %q both receive money at the account %s; give one of them another product, or remove it", other, a.Rail, a.ID)
		}
		rails[a.ID] = a.Rail
	}
	for _, u := range RailsOf[USDC](s) {
		hosts := make(map[string]bool)
		for _, f := range u.Facilitators {
			host := offer.Host(f.URL)
			if hosts[host] {
				return fmt.Errorf("%s has two facilitators on the host %s; remove one", u.Name(), host)
			}
			hosts[host] = true
		}
	}
	if _, err := announce.New(announce.Config{Endpoints: s.Announce}); err != nil {
		return err
	}
	return web.CheckImages(s.Offer)
}

// isOwn reports whether an EVM address is one of the operator's own.
func (s *Settings) isOwn(address string) bool {
	return slices.ContainsFunc(s.OwnPayers, func(own string) bool { return strings.EqualFold(own, address) })
}

// Rail is a rail of an offer with the settings of its observer. A rail that is only
// published needs none.
type Rail interface {
	offer.Rail
	// observe makes the observer, shares what it depends on, and registers the webhook.
	// It returns nil if the payments of the rail are not monitored.
	observe(svc *Service) (observer, error)
}

// warner is a Rail that knows which of its settings are probably mistakes.
type warner interface{ warn(logger *slog.Logger) }

// observer reads the payments of one rail. One that is a Runner reads them in the background.
type observer interface {
	// Health says how well the rail is observed. It never blocks.
	Health() observe.Health
}

// addressObserver is the observer of a rail that publishes a new address after a payment.
type addressObserver interface {
	observer
	Load(cursors map[string]ledger.Cursor) error
	Address() string
	Listen(changed func()) (stop func())
	Quoted(satoshis, usdCents int64)
}

// constantHealth is the health of a rail that has no observer.
type constantHealth observe.Health

func (c constantHealth) Health() observe.Health { return observe.Health(c) }

// Manual is a rail whose payments only the operator enters.
type Manual struct{ offer.Rail }

func (m Manual) observe(*Service) (observer, error) {
	return constantHealth{Rail: m.Name(), Source: "operator"}, nil
}

// RailsOf returns the rails of one kind, in order.
func RailsOf[R Rail](s *Settings) (found []R) {
	for _, rail := range s.Rails {
		if r, ok := rail.(R); ok {
			found = append(found, r)
		}
	}
	return found
}

// Warn logs which settings of the rails are probably mistakes.
func (s *Settings) Warn(logger *slog.Logger) {
	for _, rail := range s.Rails {
		if w, ok := rail.(warner); ok {
			w.warn(logger.With("rail", rail.Name()))
		}
	}
}

// warnUnreadSince warns of an option since without the option that reads older payments.
func warnUnreadSince(logger *slog.Logger, since int64, option string, configured bool) {
	if since > 0 && !configured {
		logger.Warn("since has no effect", "missing", option, "hint", "add this option: it reads the payments before the first start")
	}
}
