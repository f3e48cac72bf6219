// Package demo plays those whom one whole sale needs beside the server: the card
// processor with its checkout, and the facilitator, on loopback and without a
// chain. Main registers it; the plugin asks it for an offer that
// holds the demo values of the shipped Caddyfile, and for no other.
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

// Prepare lets the plugin play demos in a process that was started with the given
// arguments to be a server. Other commands have nothing to play.
func Prepare(arguments []string) {
	if len(arguments) > 0 && arguments[0] == "run" {
		caddy.RegisterModule(new(Demo))
	}
}

// stages is the one theater of the process, which begins with its first demo.
var stages theater

// Demo implements payoffer.Demo.
type Demo struct{}

// CaddyModule returns the Caddy module information.
func (*Demo) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "pay_offer.demo", New: func() caddy.Module { return new(Demo) }}
}

// Stage implements payoffer.Demo. The servers and the secrets of the process are
// the same for every configuration, so that a reload interrupts nothing.
func (*Demo) Stage(o *offer.Offer) (payoffer.Stage, error) { return stages.stage(o) }

// timeout bounds what is asked of the pretend parts, and what they ask the service.
const timeout = 15 * time.Second

// theater is everything that is pretend in a process.
type theater struct {
	mu    sync.Mutex
	built payoffer.Stage // its zero value before the first demo
	kept  *keep          // nil while nothing is kept

	// playing are the offers by their hosts, as they were staged last.
	playing sync.Map
	newest  atomic.Pointer[offer.Offer]
	client  http.Client
}

func (t *theater) stage(o *offer.Offer) (payoffer.Stage, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.built.Checkout == "" {
		if err := t.build(); err != nil {
			return payoffer.Stage{}, err
		}
	}
	host := offer.Host(o.BaseURL)
	t.playing.Store(host, o)
	t.newest.Store(o)
	stage := t.built
	stage.Checkout += "/" + host
	return stage, nil
}

// build opens the servers and makes the secrets.
func (t *theater) build() error {
	checkout, err := serve(checkout{t})
	var facilitator string
	if err == nil {
		facilitator, err = serve(newFacilitator(t.newest.Load))
	}
	if err != nil {
		return fmt.Errorf("listen on loopback: %w", err)
	}
	t.built = payoffer.Stage{
		Folder: t.folder, Strike: t.strike, Checkout: checkout, WebhookSecret: "whsec_" + rand.Text(), Facilitator: facilitator,
	}
	t.client = http.Client{Timeout: timeout, Transport: &http.Transport{
		DialContext: dialHere,
		// Whatever certificate the service has here, nobody is between.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	// This runs after the ledger was closed, for the plugin has asked before.
	caddy.OnExit(func(context.Context) { t.strike() })
	return nil
}

// folder is that of the ledger and the keys, the same for every configuration.
func (t *theater) folder() (_ string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil {
		if t.kept, err = newKeep(); err != nil {
			return "", fmt.Errorf("make a temporary folder: %w", err)
		}
	}
	return t.kept.folder, nil
}

func (t *theater) strike() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept != nil {
		t.kept.remove()
		t.kept = nil
	}
}

// serve answers on a free port of loopback until the process ends, and returns the
// origin. It answers by its address alone: a name that a website has lead here is the
// website's, to which a browser would let it read and pay.
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

// dialHere connects to this machine, whatever a resolver says of the name.
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
