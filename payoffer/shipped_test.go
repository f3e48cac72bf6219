package payoffer

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
	"github.com/stretchr/testify/require"
)

// loaded is what the shipped Caddyfile becomes.
type loaded struct {
	http caddyhttp.App
	tls  caddytls.TLS
	// served are the hosts by the address that they are served at; "" is any host.
	served map[string][]string
	// offer is the handler's, which stands once or not at all on a server.
	offer Handler
	// ledger is the app's.
	ledger LedgerConfig
}

// loadShipped adapts the shipped Caddyfile with variables, and provisions it.
func loadShipped(t *testing.T, env map[string]string) (l loaded) {
	t.Helper()
	for name, value := range env {
		t.Setenv(name, value)
	}
	config := decode(t, shipped(t))
	require.NoError(t, caddy.Validate(decode(t, shipped(t))))
	require.NoError(t, json.Unmarshal(config.AppsRaw["http"], &l.http))
	require.NoError(t, json.Unmarshal(config.AppsRaw["tls"], &l.tls))
	app := App{Ledger: &l.ledger}
	require.NoError(t, json.Unmarshal(config.AppsRaw["pay_offer"], &app))
	l.served = map[string][]string{}
	for _, server := range l.http.Servers {
		for _, address := range server.Listen {
			for _, route := range server.Routes {
				hosts := []string{""}
				for _, matcher := range route.MatcherSetsRaw {
					if named, ok := matcher["host"]; ok {
						require.NoError(t, json.Unmarshal(named, &hosts))
					}
				}
				l.served[address] = append(l.served[address], hosts...)
			}
			slices.Sort(l.served[address])
			l.served[address] = slices.Compact(l.served[address])
		}
	}
	offers := handlers(t, l.http, "pay_offer")
	require.Len(t, offers, 1)
	require.NoError(t, json.Unmarshal(offers[0], &l.offer))
	require.Len(t, handlers(t, l.http, "templates"), 1, "there is one page")
	return l
}

// handlers are those with a name, wherever they stand in the routes.
func handlers(t *testing.T, app caddyhttp.App, name string) (found []json.RawMessage) {
	t.Helper()
	var search func(routes caddyhttp.RouteList)
	search = func(routes caddyhttp.RouteList) {
		for _, route := range routes {
			for _, raw := range route.HandlersRaw {
				var handler struct {
					Handler string
					Routes  caddyhttp.RouteList
				}
				require.NoError(t, json.Unmarshal(raw, &handler))
				if handler.Handler == name {
					found = append(found, raw)
				}
				search(handler.Routes)
			}
		}
	}
	for _, server := range app.Servers {
		search(server.Routes)
	}
	return found
}

// with is the variables of a public server, and more.
func with(more map[string]string) map[string]string {
	env := maps.Clone(production)
	maps.Copy(env, more)
	return env
}

// Each way to run the shipped Caddyfile is a matter of variables alone, and nothing else changes with them.
func TestShippedCaddyfileCarriesEveryCaseByVariablesAlone(t *testing.T) {
	const service, site = "pay.example.org", "www.example.org"
	rehearsal := map[string]string{"USDC_NETWORK": "base-sepolia", "BTC_ADDRESS": "tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx", "TESTNET": "on"}
	for name, c := range map[string]struct {
		env    map[string]string
		served map[string][]string
		check  func(*testing.T, loaded)
	}{
		"as it stands": {nil, map[string][]string{"127.0.0.1:8402": {"localhost"}, "127.0.0.1:8403": {"localhost"}}, func(t *testing.T, l loaded) {
			require.False(t, l.offer.Testnet)
			require.False(t, l.offer.Card.TestMode)
			require.Equal(t, LedgerConfig{Driver: "sqlite", Path: "pay_offer_shipped.db"}, l.ledger)
			require.Equal(t, 80, l.http.HTTPPort)
			require.Equal(t, 443, l.http.HTTPSPort)
			for _, server := range l.http.Servers {
				require.JSONEq(t, `{"source": "static"}`, string(server.TrustedProxiesRaw), "nobody is believed")
			}
		}},
		"in public": {with(nil), map[string][]string{"127.0.0.1:443": {service, site}}, func(t *testing.T, l loaded) {
			require.JSONEq(t, `{"module": "acme", "ca": "https://acme-v02.api.letsencrypt.org/directory",
				"challenges": {"bind_host": "127.0.0.1", "http": {"alternate_port": 80}, "tls-alpn": {"alternate_port": 443}}}`, issuer(t, l))
		}},
		"another authority": {
			with(map[string]string{"ACME_CA": "https://ca.example.net/dir", "ACME_EMAIL": "operator@example.org", "HTTP_PORT": "8080", "HTTPS_PORT": "8443"}),
			map[string][]string{"127.0.0.1:8443": {service, site}}, func(t *testing.T, l loaded) {
				require.JSONEq(t, `{"module": "acme", "ca": "https://ca.example.net/dir", "email": "operator@example.org",
					"challenges": {"bind_host": "127.0.0.1", "http": {"alternate_port": 8080}, "tls-alpn": {"alternate_port": 8443}}}`, issuer(t, l))
			},
		},
		"several addresses": {
			with(map[string]string{"BIND": "192.0.2.1 2001:db8::1"}),
			map[string][]string{"192.0.2.1:443": {service, site}, "[2001:db8::1]:443": {service, site}}, nil,
		},
		"every address": {with(map[string]string{"BIND": ""}), map[string][]string{":443": {service, site}}, nil},
		"one host": {with(map[string]string{"LAYOUT": "one_host", "SITE_URL": "https://" + service}),
			map[string][]string{"127.0.0.1:443": {service}}, func(t *testing.T, l loaded) { require.Equal(t, l.offer.BaseURL, l.offer.SiteURL) }},
		"behind a proxy that ends TLS": {
			with(map[string]string{"LAYOUT": "two_ports", "TRUSTED_PROXIES": "192.0.2.7 private_ranges"}),
			map[string][]string{"127.0.0.1:8402": {""}, "127.0.0.1:8403": {""}}, func(t *testing.T, l loaded) {
				require.Equal(t, "https://"+service, l.offer.BaseURL)
				for _, server := range l.http.Servers {
					var trusted struct{ Ranges []string }
					require.NoError(t, json.Unmarshal(server.TrustedProxiesRaw, &trusted))
					require.Subset(t, trusted.Ranges, []string{"192.0.2.7", "10.0.0.0/8", "127.0.0.1/8"})
					require.Equal(t, 1, server.TrustedProxiesStrict)
				}
			},
		},
		"one host behind a proxy": {with(map[string]string{"LAYOUT": "one_port", "SITE_URL": "https://" + service, "SERVICE_PORT": "9000"}),
			map[string][]string{"127.0.0.1:9000": {""}}, nil},
		"a rehearsal in public": {with(rehearsal), map[string][]string{"127.0.0.1:443": {service, site}}, func(t *testing.T, l loaded) {
			require.True(t, l.offer.Testnet)
		}},
		"a rehearsal of the checkout": {with(map[string]string{"CARD_TEST_MODE": "on", "TESTNET": ""}), map[string][]string{"127.0.0.1:443": {service, site}}, func(t *testing.T, l loaded) {
			require.True(t, l.offer.Card.TestMode)
			require.False(t, l.offer.Testnet)
		}},
		"a ledger of several instances": {map[string]string{"LEDGER_DRIVER": "postgres", "LEDGER": "{env.OFFER_TEST_DSN}", "OFFER_TEST_DSN": "postgres://u@h/base"},
			map[string][]string{"127.0.0.1:8402": {"localhost"}, "127.0.0.1:8403": {"localhost"}}, func(t *testing.T, l loaded) {
				require.Equal(t, LedgerConfig{Driver: "postgres", DSN: "{env.OFFER_TEST_DSN}"}, l.ledger, "a secret is no part of the configuration")
			}},
	} {
		t.Run(name, func(t *testing.T) {
			l := loadShipped(t, c.env)
			require.Equal(t, c.served, l.served)
			require.NotZero(t, l.http.GracePeriod, "a client that vanished holds up no stop for long")
			for _, server := range l.http.Servers {
				require.Equal(t, slices.Contains(server.Listen, "127.0.0.1:8403"), server.Logs == nil, "the service's log is its own")
			}
			if c.check != nil {
				c.check(t, l)
			}
		})
	}
}

// What reads variables from a file for a container sets those that stand there without a value to nothing.
func TestShippedCaddyfileTakesWhatIsSetToNothingAsUnset(t *testing.T) {
	for _, layout := range []string{"two_hosts", "one_host", "two_ports", "one_port"} {
		t.Setenv("LAYOUT", layout)
		want := shipped(t)
		for _, variable := range []string{"BASE_URL", "SITE_URL", "LAYOUT", "SERVICE_PORT", "SITE_PORT", "HTTP_PORT", "HTTPS_PORT", "GRACE_PERIOD", "ADMIN", "FILES"} {
			if variable == "LAYOUT" && layout != "two_hosts" {
				continue
			}
			t.Run(layout+" "+variable, func(t *testing.T) {
				t.Setenv(variable, "")
				require.JSONEq(t, want, shipped(t))
			})
		}
	}
	t.Setenv("CARD_URL", "")
	require.ErrorContains(t, caddy.Validate(decode(t, shipped(t))), "card: the address is empty")
}

func TestShippedCaddyfileTakesSeveralEndpoints(t *testing.T) {
	l := loadShipped(t, with(map[string]string{
		"USDC_RPC": "https://one.example https://two.example", "BTC_ESPLORA": " https://one.example/api  https://two.example/api",
	}))
	require.Equal(t, []string{"https://one.example", "https://two.example"}, l.offer.USDC[0].RPC)
	require.Equal(t, []string{"https://one.example/api", "https://two.example/api"}, l.offer.Bitcoin.Esplora)
	l = loadShipped(t, with(map[string]string{"USDC_RPC": "off", "BTC_ESPLORA": ""}))
	require.Equal(t, []string{"off"}, l.offer.USDC[0].RPC)
	require.Empty(t, l.offer.Bitcoin.Esplora)
}

// An account of which nobody would be told is a mistake; without one the empty inbox leaves the rail out.
func TestShippedCaddyfileNamesAnAccountWithoutAnInbox(t *testing.T) {
	t.Setenv("TRANSFER_INBOX", "")
	require.NoError(t, caddy.Validate(decode(t, shipped(t))))
	for variable, value := range map[string]string{
		"TRANSFER_IBAN": "DE75512108001245126199", "TRANSFER_ACCOUNT_HOLDER": "Example Org", "TRANSFER_BIC": "SOGEDEFF", "TRANSFER_PRICE_EUR": "39.00",
		"TRANSFER_ROUTING": "021000021", "TRANSFER_ACCOUNT": "1234567",
	} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, value)
			err := caddy.Validate(decode(t, shipped(t)))
			require.ErrorContains(t, err, "bank_transfer: the inbox is empty")
			require.NotContains(t, err.Error(), value)
		})
	}
}

// issuer is the one that every public host has.
func issuer(t *testing.T, l loaded) string {
	t.Helper()
	require.Len(t, l.tls.Automation.Policies, 1)
	require.Len(t, l.tls.Automation.Policies[0].IssuersRaw, 1)
	return string(l.tls.Automation.Policies[0].IssuersRaw[0])
}
