package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const typeJSON = "application/json"

// statelessMCP is the first MCP revision without sessions. It gives errors an HTTP status.
const statelessMCP = "2026-07-28"

// mcpMethods are the requests that the SDK answers.
var mcpMethods = []string{
	"initialize", "ping", "server/discover", "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read",
	"resources/subscribe", "resources/unsubscribe", "prompts/list", "prompts/get", "completion/complete", "logging/setLevel",
	"subscriptions/listen",
}

// newServer returns the server of the MCP SDK. It announces no changes, so that subscriptions end at once.
func (e *Endpoint) newServer() *mcp.Server {
	// The lists of resources and prompts are empty. The SDK answers them, so they are announced.
	capabilities := &mcp.ServerCapabilities{
		Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{}, Prompts: &mcp.PromptCapabilities{},
	}
	if e.Challenges != nil {
		capabilities.Experimental = map[string]any{"payment": mpp.Capability}
	}
	server := mcp.NewServer(&mcp.Implementation{
		Name: "pay-offer", Title: oneLine(e.Offer.Name), Version: document.Version, WebsiteURL: e.Offer.SitePage(),
	}, &mcp.ServerOptions{
		Instructions: "This server quotes one fixed payment. A quote moves no money; a person decides whether to pay.",
		Capabilities: capabilities,
	})
	server.AddTool(e.tool(), e.callTool)
	server.AddReceivingMiddleware(e.recoverPanics)
	return server
}

// newHandler returns a stateless handler, because any instance may answer. allows replaces the SDK's check of the Host.
func (e *Endpoint) newHandler() http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return e.server() },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, DisableLocalhostProtection: true})
}

// recoverPanics turns a panic into an error. The SDK runs handlers in goroutines of its own, where a panic would end the process.
func (e *Endpoint) recoverPanics(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if cause := recover(); cause != nil {
				e.Logger.Error("agent endpoint panicked", "hint", "report this as a bug", "method", method, "panic", cause, "stack", string(debug.Stack()))
				result, err = nil, &jsonrpc.Error{Code: codeInternal, Message: "internal error; if this call contained a payment, " +
					"its outcome is unknown: send the same payment again, and do not sign a new one"}
			}
		}()
		result, err = next(ctx, method, request)
		if wire, ok := errors.AsType[*jsonrpc.Error](err); ok && wire.Code != codeInternal && method == "tools/call" {
			err = &jsonrpc.Error{Code: wire.Code, Message: wire.Message + "; the only tool is " + document.ToolName, Data: wire.Data}
		}
		return result, err
	}
}

// plainErrors replaces the SDK's errors in plain text by a JSON-RPC error.
type plainErrors struct {
	http.ResponseWriter
	id    jsontext.Value
	plain bool
}

func (p *plainErrors) Unwrap() http.ResponseWriter { return p.ResponseWriter }

func (p *plainErrors) WriteHeader(status int) {
	if p.plain = strings.HasPrefix(p.Header().Get("Content-Type"), "text/plain"); !p.plain {
		p.ResponseWriter.WriteHeader(status)
		return
	}
	writeFault(p.ResponseWriter, status, p.id, &fault{codeInvalidRequest,
		"MCP cannot read this request; check the header Mcp-Protocol-Version, such as 2025-06-18, and the params"})
}

func (p *plainErrors) Write(text []byte) (int, error) {
	if p.plain {
		return len(text), nil
	}
	return p.ResponseWriter.Write(text)
}

// paymentKey is the context key of a call's payment, whose bytes the SDK does not give to its handlers.
type paymentKey struct{}

// serveMCP lets the SDK answer. It adds the headers and the params that the SDK requires and a plain curl does not send.
func (e *Endpoint) serveMCP(w http.ResponseWriter, r *http.Request, c call) {
	switch {
	case string(c.ID) == "null":
		writeFault(w, http.StatusBadRequest, c.ID, &fault{codeInvalidRequest, "the id must be a string or an integer, such as 1"})
		return
	case c.Params == nil:
		c.body = document.Line(map[string]any{"jsonrpc": "2.0", "id": c.ID, "method": c.method, "params": struct{}{}})
	case c.Params.Kind() != '{':
		writeFault(w, http.StatusOK, c.ID, &fault{codeInvalidParams, "params must be an object, such as {}"})
		return
	}
	ctx, ends := r.Context(), new(x402.Response)
	if c.method == "tools/call" {
		if paid := e.payment(c, e.ClientIP(r)); paid != nil {
			paid.attempt.Response = ends
			ctx = context.WithValue(ctx, paymentKey{}, paid)
		}
	}
	request := r.WithContext(ctx)
	request.Header = r.Header.Clone()
	request.Header.Del("Last-Event-ID") // the SDK refuses it; there are no streams to resume
	request.Header.Set("Content-Type", typeJSON)
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(c.body)), int64(len(c.body))
	ends.Serve(w, func() bool {
		e.mcp().ServeHTTP(&plainErrors{ResponseWriter: w, id: c.ID}, request)
		return true
	})
}
