// Package demo has fake services for a complete sale on loopback, without a chain: the
// card processor with its checkout, and the facilitator. Main registers it. The plugin
// uses it only for an offer whose addresses are all the demo values of the shipped
// Caddyfile.
package demo

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/payoffer/caddy-pay-offer/payoffer"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Prepare registers the demo if the arguments of the process start a server. Other
// commands do not need it.
func Prepare(arguments []string) {
	if len(arguments) > 0 && arguments[0] == "run" {
		caddy.RegisterModule(new(Demo))
	}
}

// running is the one sandbox of the process, which is built for its first demo.
var running sandbox

// Demo implements payoffer.Demo.
type Demo struct{}

// CaddyModule returns the Caddy module information.
func (*Demo) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "pay_offer.demo", New: func() caddy.Module { return new(Demo) }}
}

// Start implements payoffer.Demo. The servers and the secrets of the process are
// the same for every configuration, so that a reload interrupts nothing.
func (*Demo) Start(o *offer.Offer) (payoffer.Sandbox, error) { return running.start(o) }

// timeout bounds the requests to the fake services and from them.
const timeout = 15 * time.Second

// sandbox has the fake services of a process.
type sandbox struct {
	mu    sync.Mutex
	built payoffer.Sandbox // its zero value before the first demo
	temp  *tempFolder      // nil while there is none

	// offers has the offer that was started last for each host.
	offers sync.Map
	newest atomic.Pointer[offer.Offer]
	// paid has the last payment at the checkout that was not refunded for each base URL.
	paid      sync.Map
	inAMinute func(func()) // calls it then
	client    http.Client
}

func (s *sandbox) start(o *offer.Offer) (payoffer.Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.built.Checkout == "" {
		if err := s.build(); err != nil {
			return payoffer.Sandbox{}, err
		}
	}
	host := offer.Host(o.BaseURL)
	s.offers.Store(host, o)
	s.newest.Store(o)
	started := s.built
	started.Checkout += "/" + host
	return started, nil
}

// build opens the servers and makes the secrets.
func (s *sandbox) build() error {
	checkout, err := serve(checkout{s})
	var facilitator string
	if err == nil {
		facilitator, err = serve(newFacilitator(s.newest.Load))
	}
	if err != nil {
		return fmt.Errorf("listen on loopback: %w", err)
	}
	s.built = payoffer.Sandbox{
		Folder: s.folder, Remove: s.remove, Checkout: checkout, WebhookSecret: "whsec_" + rand.Text(), Facilitator: facilitator,
	}
	s.inAMinute = func(f func()) { time.AfterFunc(time.Minute, f) }
	s.client = http.Client{Timeout: timeout, Transport: &http.Transport{
		DialContext: dialHere,
		// Any certificate is accepted, because the connection does not leave this machine.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	// This runs after the ledger is closed, because the plugin registered its exit earlier.
	caddy.OnExit(func(context.Context) { s.remove() })
	return nil
}

// folder returns the folder of the ledger and the keys, the same for every configuration.
func (s *sandbox) folder() (_ string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.temp == nil {
		if s.temp, err = newFolder(); err != nil {
			return "", fmt.Errorf("make a temporary folder: %w", err)
		}
	}
	return s.temp.folder, nil
}

func (s *sandbox) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.temp != nil {
		s.temp.remove()
		s.temp = nil
	}
}

// serve starts a server on a free loopback port until the process ends, and returns its
// origin. It answers only if the Host is its address. Otherwise a website whose name leads
// to this machine (DNS rebinding) could read the page and pay.
func serve(handler http.Handler) (origin string, err error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	address := listener.Addr().String()
	server := http.Server{ReadTimeout: timeout, WriteTimeout: 2 * timeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != address {
			http.Error(w, "This host name is not the demo's. Open http://"+address+".", http.StatusMisdirectedRequest)
			return
		}
		handler.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(listener) }() // it ends with the process
	return "http://" + address, nil
}

// dialHere connects to this machine, whatever address the name has.
func dialHere(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		host = "127.0.0.1"
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, net.JoinHostPort(host, port))
}

// Interface guard
var _ payoffer.Demo = (*Demo)(nil)
