package payoffer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

// offers are the services in use.
func (app *App) offers() []*service {
	app.mu.Lock()
	defer app.mu.Unlock()
	return slices.Clone(app.services)
}

// acquire finds or makes the service of a handler's offer.
func (app *App) acquire(h *Handler, s *settings, r *resolver) (*service, error) {
	config, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	app.mu.Lock()
	defer app.mu.Unlock()
	if shared, err := app.match(s, config); shared != nil || err != nil {
		if shared != nil {
			shared.users++
		}
		return shared, err
	}
	svc, err := app.newService(s, config)
	if err != nil {
		return nil, err
	}
	svc.users = 1
	app.services = append(app.services, svc)
	app.warn(s, r)
	return svc, nil
}

// match finds the service of the same offer, and refuses one that would share
// its id or an account with a different offer. It needs the lock.
func (app *App) match(s *settings, config []byte) (*service, error) {
	mine := s.accounts()
	for _, svc := range app.services {
		if bytes.Equal(svc.config, config) {
			return svc, nil
		}
		if svc.offer.ID == s.offer.ID {
			return nil, fmt.Errorf("two offers have the id %q; give one of them another 'id' or base_url", s.offer.ID)
		}
		for _, theirs := range svc.accounts() {
			if slices.ContainsFunc(mine, func(a ledger.Account) bool { return a.ID == theirs.ID }) {
				return nil, fmt.Errorf("the offers %q and %q both take money at the account of %s (%s); "+
					"receipts could not be told apart, use another address", svc.offer.ID, s.offer.ID, theirs.Rail, theirs.ID)
			}
		}
	}
	return nil, nil
}

// release gives a handler's service back and closes it with its last user.
func (app *App) release(svc *service) error {
	app.mu.Lock()
	svc.users--
	last := svc.users == 0
	if last {
		app.services = slices.DeleteFunc(app.services, func(other *service) bool { return other == svc })
	}
	app.mu.Unlock()
	if !last {
		return nil
	}
	return svc.close()
}

// generations are the started apps: two of them while a configuration is
// reloaded. The admin API and the metrics read the newest.
type generations struct {
	mu   sync.Mutex
	apps []*App
}

var running generations

func (g *generations) add(app *App) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.apps = append(g.apps, app)
}

func (g *generations) remove(app *App) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.apps = slices.DeleteFunc(g.apps, func(other *App) bool { return other == app })
}

// newest is the app started last, or nil.
func (g *generations) newest() *App {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.apps) == 0 {
		return nil
	}
	return g.apps[len(g.apps)-1]
}
