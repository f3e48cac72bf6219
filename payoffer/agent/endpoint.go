// Package agent answers AI agents by MCP (Streamable HTTP) and A2A (0.3 and 1.0) on one JSON-RPC endpoint.
package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const maxBody = 64 << 10 // bytes of a request

// Payments quotes and takes x402 payments. *x402.Service implements it.
type Payments interface {
	Accepts() []x402.Requirements                // the ways to pay by x402, none without a USDC rail
	Quote() *x402.Quote                          // the current quote; the same pointer means the same quote
	Required(reason string) x402.PaymentRequired // the version 2 quote with an error text
	Hint() string                                // why a client may refuse to pay; needs a USDC rail
	// Pay verifies and settles a payment.
	Pay(ctx context.Context, attempt x402.Attempt) x402.Outcome
}

// Config configures an endpoint. Only Challenges is optional.
type Config struct {
	Offer      *offer.Offer
	Live       func() offer.Live // is called for every quote and must not block
	Payments   Payments
	Challenges *mpp.Issuer                  // nil if MPP is off
	PaidURL    func(x402.Outcome) string    // the page of a payment for its payer, or empty
	ClientIP   func(r *http.Request) string // the address by which the rate limit counts a request
	Logger     *slog.Logger
}

// Endpoint answers POST /mcp.
type Endpoint struct {
	Config
	server   func() *mcp.Server  // of the MCP SDK, created at the first MCP request
	mcp      func() http.Handler // of the server
	quoted   atomic.Pointer[quote]
	loopback bool // whether base_url is on loopback
}

func New(c Config) (*Endpoint, error) {
	if c.Offer == nil || c.Live == nil || c.Payments == nil || c.PaidURL == nil || c.ClientIP == nil || c.Logger == nil {
		return nil, errors.New("agent: a field of Config is not set; report this as a bug")
	}
	e := &Endpoint{Config: c, loopback: isLoopback(c.Offer.BaseURL)}
	e.server, e.mcp = sync.OnceValue(e.newServer), sync.OnceValue(e.newHandler)
	return e, nil
}

// ServeHTTP answers one JSON-RPC message. The caller has checked the method.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.allows(r) {
		writeFault(w, http.StatusForbidden, nil, &fault{codeInvalidRequest,
			"this service is on loopback, so the Host and Origin of a request must be loopback too, such as localhost"})
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	c, problem := parse(body)
	method, isA2A := a2aMethods[c.method]
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		writeFault(w, http.StatusRequestEntityTooLarge, nil, &fault{codeInvalidRequest,
			"the request is larger than 64 KiB, and no payment was sent; send one message without attachments"})
	case errors.Is(err, os.ErrDeadlineExceeded):
		writeFault(w, http.StatusRequestTimeout, nil, &fault{codeParse, "the request body arrived too slowly, and no payment was sent; send it again"})
	case err != nil:
		writeFault(w, http.StatusBadRequest, nil, &fault{codeParse, "the request body did not arrive in full, and no payment was sent; send it again"})
	case problem != nil:
		writeFault(w, http.StatusBadRequest, c.ID, problem)
	case c.ID == nil: // a notification or a response, which has no answer
		w.WriteHeader(http.StatusAccepted)
	case isA2A && r.Header.Get("Mcp-Protocol-Version") == "": // both have methods tasks/*
		e.serveA2A(w, r, c, method)
	case slices.Contains(mcpMethods, c.method):
		e.serveMCP(w, r, c)
	default:
		status := http.StatusOK
		if r.Header.Get("Mcp-Protocol-Version") >= statelessMCP {
			status = http.StatusNotFound
		}
		writeFault(w, status, c.ID, &fault{codeMethodNotFound,
			"unknown method " + strconv.Quote(c.method[:min(len(c.method), 40)]) + "; call tools/call (MCP), message/send (A2A 0.3) or SendMessage (A2A 1.0)"})
	}
}

// allows protects a service on loopback from web pages in the browser of the person who runs it (DNS rebinding; MCP "Security
// Warning" of the transport). A public service has nothing to protect: it takes no credentials and answers everyone the same.
func (e *Endpoint) allows(r *http.Request) bool {
	if !e.loopback {
		return true
	}
	return (r.Host == "" || isLoopback("http://"+r.Host)) && !slices.ContainsFunc(r.Header["Origin"], func(origin string) bool {
		return !isLoopback(origin) && origin != e.Offer.BaseURL && origin != e.Offer.SiteURL
	})
}

// isLoopback reports whether an origin names this machine. "null" does not.
func isLoopback(origin string) bool {
	canonical, err := offer.ParseOrigin(origin)
	if err != nil {
		return false
	}
	u, err := url.Parse(canonical)
	return err == nil && offer.IsLoopback(u.Hostname())
}
