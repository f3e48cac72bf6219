// Package live lets the built binary check worlds around one running server: one without problems, and one for each problem.
package live

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// The hosts of a world. What is asked over HTTPS goes through its proxy, and never leaves this machine.
const (
	payHost, siteHost, hookedHost, offHost = "pay.example.org", "example.org", "hooked.example.org", "off.example.org"
	facilitatorHost, rpcHost, checkoutHost = "facilitator.example.com", "rpc.example.com", "checkout.example.com"
)

var priceHosts = []string{"mempool.space", "api.coinbase.com", "api.kraken.com", "www.bitstamp.net"}

const (
	global = `{
	admin localhost:ADMIN
	persist_config off
	default_bind 127.0.0.1
	storage file_system DIR/storage
	servers 127.0.0.1:TRUSTING {
		trusted_proxies static 127.0.0.1/8
		trusted_proxies_strict
	}
	pay_offer {
		ledger sqlite DIR/ledger.db
	}
}
`
	mainDirective = `	pay_offer {
		base_url https://pay.example.org
		site_url https://example.org
		testnet
		card https://checkout.example.com/pay
		usdc base-sepolia PAYEE {
			facilitator https://facilitator.example.com {
				key_id main
				key_secret {env.CDP_KEY_SECRET}
			}
			rpc https://rpc.example.com/{env.RPC_KEY}
			confirm latest
		}
		bitcoin tb1qw508d6qejxtdg4y5r3zarvary0c5xw7kxpjzsx {
			esplora off
		}
	}
`
	mainSite = `http://pay.example.org:TRUSTING {
` + mainDirective + `}
http://example.org:TRUSTING {
	pay_offer_page
	pay_offer_gate /course/* {
		offer pay.example.org
		start /course/
	}
	respond /course/* "the course"
}
`
	hookedSite = `http://hooked.example.org:TRUSTING {
	pay_offer {
		id hooked
		base_url https://hooked.example.org
		card https://checkout.example.com/hooked {
			payment_link plink_1
			webhook_secret {env.CARD_WEBHOOK_SECRET}
		}
	}
	pay_offer_page
}
`
	offSite = `http://off.example.org:TRUSTING {
	pay_offer {
		id off
		base_url https://off.example.org
		card https://checkout.example.com/off {
			payment_link plink_2
			webhook_secret {env.NO_SUCH_SECRET}
		}
	}
	pay_offer_page
}
`
)

// headers are directives of a site: the first replaces headers of the offer, and the second does not.
var headers = [...]string{
	"header {\n\t-Server\n\tContent-Security-Policy \"default-src 'self'\"\n}\n",
	"header -Server\nheader Content-Security-Policy \"default-src 'self'\"\nheader ?Cache-Control no-cache\n",
}

// secrets are what no output may hold: those of the environment.
var secrets = map[string]string{
	"CDP_KEY_SECRET": "LS0tLS1CRUdJTg", "RPC_KEY": "rpc-key-0123456789", "CARD_WEBHOOK_SECRET": "whsec_0123456789abcdef0123456789",
}

// house is one running server, and what all worlds share.
type house struct {
	*testing.T
	authority       *authority
	replace         *strings.Replacer
	admin, trusting string
	wrapped         [len(headers)]string // ports of the offer behind headers
	chain, prices   http.Handler
	facilitator     http.Handler
}

func newHouse(t *testing.T) *house {
	t.Helper()
	c := chain.Start(t)
	h := &house{
		T: t, authority: newAuthority(t), admin: payoffertest.FreePort(t), trusting: payoffertest.FreePort(t),
		chain: toOrigin(t, c.URL), prices: toOrigin(t, payoffertest.NewPrices(t, time.Now).URL()),
		facilitator: payoffertest.NewFacilitator(t),
	}
	secrets["CDP_KEY_SECRET"] = newKey(t)
	h.replace = strings.NewReplacer("ADMIN", h.admin, "TRUSTING", h.trusting, "DIR", t.TempDir(),
		"PAYEE", chain.Address(c.Payer).Hex())
	whole, wrapped := h.world(t), ""
	for i, directives := range headers {
		h.wrapped[i] = payoffertest.FreePort(t)
		wrapped += "http://pay.example.org:" + h.wrapped[i] + " {\n" + directives + mainDirective + "}\n"
	}
	server.Start(t, "http://127.0.0.1:"+h.trusting, h.replace.Replace(global+mainSite+hookedSite+offSite+wrapped)+
		"http://127.0.0.1:"+h.trusting+" {\n\trespond /v1/received 200\n}\n", h.env(whole)...)
	server.Eventually(t, "the offer has its keys", func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+h.trusting+"/v1/pay/card.png", nil)
		require.NoError(t, err)
		request.Host = payHost
		answer, err := http.DefaultTransport.RoundTrip(request)
		return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusFound
	})
	return h
}

// env is the environment of a process in a world.
func (h *house) env(w *world) []string {
	env := []string{"HTTPS_PROXY=" + w.proxy, "SSL_CERT_FILE=" + h.authority.file}
	for name, value := range secrets {
		env = append(env, name+"="+value)
	}
	return env
}

// world is what surrounds the server: who answers for each host.
type world struct {
	hosts map[string]http.Handler
	// certificates are those of hosts that have others.
	certificates map[string]*tls.Certificate
	// caddyfile is what is checked; admin is where the running server is asked.
	caddyfile, admin string

	proxy string
}

// world is a whole one.
func (h *house) world(t *testing.T) *world {
	t.Helper()
	front := h.front(h.trusting, nil)
	w := &world{
		hosts: map[string]http.Handler{
			payHost: front, siteHost: front, hookedHost: front, offHost: front, facilitatorHost: h.facilitator, rpcHost: h.chain,
			checkoutHost: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		},
		certificates: map[string]*tls.Certificate{},
		caddyfile:    global + mainSite, admin: "localhost:" + h.admin,
	}
	for _, host := range priceHosts {
		w.hosts[host] = h.prices
	}
	site := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if answers := w.hosts[r.Host]; answers != nil {
			answers.ServeHTTP(rw, r)
			return
		}
		rw.WriteHeader(http.StatusTeapot)
	}))
	good := h.authority.certify(t, time.Now().Add(-24*time.Hour), time.Now().Add(24*time.Hour))
	site.TLS = &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if other := w.certificates[hello.ServerName]; other != nil {
			return other, nil
		}
		return good, nil
	}}
	site.Config.ErrorLog = log.New(io.Discard, "", 0) // some worlds have handshakes that fail
	site.StartTLS()
	t.Cleanup(site.Close)
	proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		lab.Tunnel(rw, r, site.Listener.Addr().String())
	}))
	t.Cleanup(proxy.Close)
	w.proxy = proxy.URL
	return w
}

// front is a proxy in front of the server that ends TLS and says whom it asks for; change changes its answers.
func (h *house) front(port string, change func(*http.Response) error) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "127.0.0.1:" + port})
			r.Out.Host = r.In.Host
			r.Out.Header.Set("X-Forwarded-For", "203.0.113.9")
		},
		ModifyResponse: change,
		Transport:      lab.WholeBodies,
	}
}

// toOrigin passes requests on.
func toOrigin(t *testing.T, origin string) http.Handler {
	t.Helper()
	u := lab.Must(url.Parse(origin))(t)
	return &httputil.ReverseProxy{Transport: lab.WholeBodies, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(u)
		if strings.HasPrefix(r.In.URL.Path, "/"+secrets["RPC_KEY"]) {
			r.Out.URL.Path = "/"
		}
	}}
}

// authority signs the certificates that the binary trusts.
type authority struct {
	template *x509.Certificate
	key      *ecdsa.PrivateKey
	file     string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key := lab.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	a := &authority{key: key, file: filepath.Join(t.TempDir(), "authority.pem"), template: &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	der := lab.Must(x509.CreateCertificate(rand.Reader, a.template, a.template, &key.PublicKey, key))(t)
	require.NoError(t, os.WriteFile(a.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return a
}

// certify makes a certificate for every host of a world.
func (a *authority) certify(t *testing.T, from, until time.Time) *tls.Certificate {
	t.Helper()
	key := lab.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: from, NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature,
		DNSNames: append([]string{payHost, siteHost, hookedHost, offHost, facilitatorHost, rpcHost, checkoutHost}, priceHosts...),
	}, a.template, &key.PublicKey, a.key)
	require.NoError(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// newKey is one that signs for the facilitator.
func newKey(t *testing.T) string {
	t.Helper()
	key := lab.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	der := lab.Must(x509.MarshalECPrivateKey(key))(t)
	return strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})))
}

// checked is what the command printed, and how it ended.
type checked struct {
	out, err string
	status   int
}

// check runs the command in a world.
func (h *house) check(t *testing.T, w *world, arguments ...string) checked {
	t.Helper()
	home := t.TempDir()
	file := filepath.Join(home, "Caddyfile")
	require.NoError(t, os.WriteFile(file, []byte(h.replace.Replace(w.caddyfile)), 0o600))
	command := exec.CommandContext(t.Context(), server.Released(t), append([]string{
		"pay-offer", "check", "--live", "--config", file, "--adapter", "caddyfile", "--address", w.admin,
	}, arguments...)...)
	command.Env = append(slices.Concat(h.env(w), server.Inherited()), "HOME="+home, "XDG_CONFIG_HOME="+home, "XDG_DATA_HOME="+home)
	var out, failed bytes.Buffer
	command.Stdout, command.Stderr = &out, &failed
	err := command.Run()
	if _, exited := err.(*exec.ExitError); !exited {
		require.NoError(t, err)
	}
	got := checked{out.String(), failed.String(), command.ProcessState.ExitCode()}
	for name, secret := range secrets {
		require.NotContains(t, got.out+got.err, secret, name)
	}
	return got
}
