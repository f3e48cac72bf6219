// Package agent answers programs that act for a person: MCP (Model Context
// Protocol, Streamable HTTP) and A2A (Agent2Agent, 0.3 and 1.0) on one
// JSON-RPC endpoint.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// maxBody bounds a request, in bytes.
const maxBody = 64 << 10

// Payments are the x402 terms of the offer, and take its payments;
// *x402.Service is one.
type Payments interface {
	// Accepts are the ways to pay by x402, empty without a USDC rail.
	Accepts() []x402.Requirements
	// Quote is the standing quote. The same pointer means the same quote.
	Quote() *x402.Quote
	// Required is the version 2 quote with a reason.
	Required(reason string) x402.PaymentRequired
	// Hint tells a buyer why its client may refuse to pay. It is asked for
	// only when Accepts is not empty.
	Hint() string
	// Pay verifies and settles an attempt.
	Pay(ctx context.Context, attempt x402.Attempt) x402.Outcome
}

// Config is what an endpoint needs; every field but Challenges is required.
type Config struct {
	Offer *offer.Offer
	// Live must not block; it is asked on every quote.
	Live     func() offer.Live
	Payments Payments
	// Challenges makes the challenges of the Payment scheme and reads the answers to
	// them; nil where it is not spoken.
	Challenges *mpp.Issuer
	// Summary is the report of received payments without its receipts, a JSON
	// object.
	Summary func(ctx context.Context) (json.RawMessage, error)
	// PaidURL is where the payer follows what becomes of a payment; empty where
	// there is no such page.
	PaidURL func(x402.Outcome) string
	// ClientIP is the address that the rate limit counts a request by.
	ClientIP func(r *http.Request) string
	Logger   *slog.Logger
}

// Endpoint answers POST /mcp: MCP by the official SDK, A2A, and a JSON-RPC
// error for everything else.
type Endpoint struct {
	Config
	// server is the SDK's, and mcp its handler. They are made when a client first
	// asks for what they answer.
	server func() *mcp.Server
	mcp    func() http.Handler
	quoted atomic.Pointer[quote]
	// loopback says that the service is on this machine alone.
	loopback bool
}

// New makes the endpoint.
func New(c Config) (*Endpoint, error) {
	if c.Offer == nil || c.Live == nil || c.Payments == nil || c.Summary == nil || c.PaidURL == nil || c.ClientIP == nil || c.Logger == nil {
		return nil, errors.New("agent: a field of Config is not set")
	}
	e := &Endpoint{Config: c, loopback: isLoopback(c.Offer.BaseURL)}
	e.server = sync.OnceValue(e.newMCP)
	e.mcp = sync.OnceValue(func() http.Handler { return newHandler(e.server()) })
	return e, nil
}

// Server is the SDK's, behind what this package has before it. Whoever embeds the
// endpoint may add tools, resources and prompts to it.
func (e *Endpoint) Server() *mcp.Server { return e.server() }

// ServeHTTP answers one JSON-RPC message. The caller has checked that the
// method is POST and has set the headers that every answer carries.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.allows(r) {
		writeFault(w, http.StatusForbidden, nil, &fault{Code: codeInvalidRequest,
			Message: "this service is on loopback: the Host and Origin of a request must be loopback too"})
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	call, problem := parse(body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		writeFault(w, http.StatusRequestEntityTooLarge, nil, &fault{Code: codeInvalidRequest,
			Message: "the request is larger than 64 KiB; send one message without attachments"})
	case errors.Is(err, os.ErrDeadlineExceeded):
		writeFault(w, http.StatusRequestTimeout, nil, &fault{Code: codeParse,
			Message: "the request body did not arrive in time, and no payment was sent; send it again"})
	case err != nil:
		writeFault(w, http.StatusBadRequest, nil, &fault{Code: codeParse, Message: "the request body ended early; send it again"})
	case problem != nil:
		writeFault(w, http.StatusBadRequest, call.id, problem)
	case call.id == nil:
		// A notification, or a response to a question that was never asked:
		// nothing here depends on one, and none is answered (JSON-RPC 2.0
		// section 4.1, MCP "Sending Messages to the Server").
		w.WriteHeader(http.StatusAccepted)
	default:
		e.dispatch(w, r, call)
	}
}

// dispatch routes by method. The names of MCP and A2A are disjoint but for
// tasks/*, which is A2A unless the request says that it is MCP; the MCP tasks
// extension is not offered.
func (e *Endpoint) dispatch(w http.ResponseWriter, r *http.Request, call call) {
	_, speaksMCP := r.Header["Mcp-Protocol-Version"]
	method, known := a2aMethods[call.method]
	switch {
	case mcpMethods[call.method]:
		e.serveMCP(w, r, call)
	case known && !speaksMCP:
		e.serveA2A(w, r, call, method)
	default:
		writeFault(w, notFoundStatus(r), call.id, &fault{Code: codeMethodNotFound,
			Message: "unknown method; MCP clients call tools/call, A2A clients message/send or SendMessage"})
	}
}

// allows refuses requests that a web page of somebody else made through the
// browser of a person who runs the service on loopback (DNS rebinding; MCP
// "Security Warning" of the Streamable HTTP transport). A client that is no
// browser sends no Origin; HTTP/1.0 needs no Host. The configured origins are
// always welcome.
//
// A public service has nothing to guard: it takes no credentials, answers
// everyone the same, and is meant to be called by scripts of any origin. Its
// Host is not compared either, for proxies in front of it rewrite that.
func (e *Endpoint) allows(r *http.Request) bool {
	if !e.loopback {
		return true
	}
	if r.Host != "" && !isLoopback("http://"+r.Host) {
		return false
	}
	return !slices.ContainsFunc(r.Header["Origin"], func(origin string) bool {
		return !isLoopback(origin) && origin != e.Offer.BaseURL && origin != e.Offer.SiteURL
	})
}

// isLoopback reports whether an origin names this machine. The opaque origin
// "null" and anything that is no origin do not.
func isLoopback(origin string) bool {
	canonical, err := offer.ParseOrigin(origin)
	if err != nil {
		return false
	}
	u, err := url.Parse(canonical)
	return err == nil && offer.IsLoopback(u.Hostname())
}
