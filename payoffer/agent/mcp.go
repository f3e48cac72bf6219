package agent

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
)

// newestMCP is the first MCP revision without sessions. It gives errors an
// HTTP status of their own.
const newestMCP = "2026-07-28"

// mcpMethods are the requests that the SDK answers.
var mcpMethods = map[string]bool{
	"initialize":               true,
	"ping":                     true,
	"server/discover":          true,
	"tools/list":               true,
	"tools/call":               true,
	"resources/list":           true,
	"resources/templates/list": true,
	"resources/read":           true,
	"resources/subscribe":      true,
	"resources/unsubscribe":    true,
	"prompts/list":             true,
	"prompts/get":              true,
	"completion/complete":      true,
	"logging/setLevel":         true,
	"subscriptions/listen":     true,
}

// newMCP makes the SDK's server: nothing is announced as changing, so a subscription
// ends at once and no client holds a connection.
func (e *Endpoint) newMCP() *mcp.Server {
	capabilities := &mcp.ServerCapabilities{
		Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{}, Prompts: &mcp.PromptCapabilities{},
	}
	if len(e.Payments.Accepts()) > 0 {
		capabilities.AddExtension(paymentExtension, nil)
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
	e.addResources(server)
	e.addPrompt(server)
	server.AddReceivingMiddleware(e.contain, bindPayment)
	return server
}

// newHandler makes the SDK's handler: stateless, so that any instance answers any
// request. Its Host check compares with the listener's address, which is wrong behind
// a proxy; allows takes its place.
func newHandler(server *mcp.Server) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, DisableLocalhostProtection: true, MaxRequestBodyBytes: 2 * maxBody})
}

// internalError does not say what became of a payment, for nobody knows.
const internalError = "internal error; if this call held a payment, its outcome is unknown: send the same payment again, and sign no new one"

// contain turns a panic into an error. The SDK runs handlers on goroutines of
// its own, where no HTTP server recovers: a panic would end the whole process.
func (e *Endpoint) contain(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if cause := recover(); cause != nil {
				e.Logger.Error("the agent endpoint panicked", "method", method, "panic", cause, "stack", string(debug.Stack()))
				result, err = nil, &jsonrpc.Error{Code: codeInternal, Message: internalError}
			}
		}()
		return next(ctx, method, request)
	}
}

// serveMCP lets the SDK answer. What it refuses in plain text, such as an id of
// null or an unknown protocol version, becomes a JSON-RPC error: every answer
// of the endpoint is JSON-RPC.
func (e *Endpoint) serveMCP(w http.ResponseWriter, r *http.Request, c call) {
	if c.params != nil && c.params[0] != '{' {
		writeFault(w, http.StatusOK, c.id, &fault{codeInvalidParams, "params must be an object"})
		return
	}
	if e.quoteTo(w, r, c) {
		return
	}
	captured := e.capture(e.withPayment(r, c), r, c)
	contentType := captured.header.Get("Content-Type")
	switch {
	case contentType == "application/json" || contentType == "text/event-stream":
		writeBody(w, captured.status, contentType, captured.body.Bytes())
	case captured.status >= http.StatusInternalServerError:
		e.Logger.Error("the MCP SDK failed", "method", c.method, "status", captured.status)
		writeFault(w, captured.status, c.id, &fault{codeInternal, internalError})
	case strings.TrimSpace(captured.body.String()) == "":
		e.Logger.Error("the MCP SDK answered nothing", "method", c.method, "status", captured.status)
		writeFault(w, http.StatusInternalServerError, c.id, &fault{codeInternal, internalError})
	default:
		writeFault(w, captured.status, c.id, &fault{codeInvalidRequest, strings.TrimSpace(captured.body.String())})
	}
}

// capture is what the SDK answers.
func (e *Endpoint) capture(ctx context.Context, r *http.Request, c call) *capture {
	captured := &capture{header: make(http.Header), status: http.StatusOK}
	e.mcp().ServeHTTP(captured, mcpRequest(ctx, r, c))
	return captured
}

// mcpRequest is the request as the SDK insists on it: a media type and an
// Accept that a bare curl does not send, and params, which may be left out
// where nothing is asked for. The message is written anew from what was
// parsed, so that the SDK cannot read it otherwise.
func mcpRequest(ctx context.Context, r *http.Request, c call) *http.Request {
	params := c.params
	if params == nil {
		params = []byte("{}")
	}
	body := encode(map[string]any{"jsonrpc": "2.0", "id": c.id, "method": c.method, "params": params})
	request := r.WithContext(ctx)
	request.Header = r.Header.Clone()
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return request
}

// notFoundStatus is the HTTP status of an unknown method: 404 on MCP revisions
// that ask for it, else 200 as JSON-RPC over HTTP and A2A have it.
func notFoundStatus(r *http.Request) int {
	if r.Header.Get("Mcp-Protocol-Version") >= newestMCP {
		return http.StatusNotFound
	}
	return http.StatusOK
}

// capture keeps a response until it is known to be JSON-RPC.
type capture struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (c *capture) Header() http.Header         { return c.header }
func (c *capture) WriteHeader(status int)      { c.status = status }
func (c *capture) Write(p []byte) (int, error) { return c.body.Write(p) }
