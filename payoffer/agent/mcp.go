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
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	typeJSON     = "application/json"
	typeMarkdown = "text/markdown"
)

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
	server.AddReceivingMiddleware(e.recoverPanics, bindPayment)
	return server
}

// newHandler returns a stateless handler, because any instance may answer. allows replaces the SDK's check of the Host.
func (e *Endpoint) newHandler() http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return e.server() },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, DisableLocalhostProtection: true})
}

// choices are added to the SDK's errors about an unknown name.
var choices = map[string]string{
	"tools/call": "; the only tool is " + document.ToolName, "prompts/get": "; the only prompt is pay", "resources/read": "; resources/list has the URIs",
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
		if wire, ok := errors.AsType[*jsonrpc.Error](err); ok && wire.Code != codeInternal {
			err = &jsonrpc.Error{Code: wire.Code, Message: wire.Message + choices[method], Data: wire.Data}
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
		c.body = encode(map[string]any{"jsonrpc": "2.0", "id": c.ID, "method": c.method, "params": struct{}{}})
	case c.Params.Kind() != '{':
		writeFault(w, http.StatusOK, c.ID, &fault{codeInvalidParams, "params must be an object, such as {}"})
		return
	}
	ctx := r.Context()
	if c.method == "tools/call" {
		if paid := e.payment(c, e.ClientIP(r)); paid != nil {
			ctx = context.WithValue(ctx, paymentKey{}, paid)
		}
	}
	request := r.WithContext(ctx)
	request.Header = r.Header.Clone()
	request.Header.Del("Last-Event-ID") // the SDK refuses it; there are no streams to resume
	request.Header.Set("Content-Type", typeJSON)
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(c.body)), int64(len(c.body))
	e.mcp().ServeHTTP(&plainErrors{ResponseWriter: w, id: c.ID}, request)
}

// addResources adds documents under the URLs at which they are also served by HTTP.
func (e *Endpoint) addResources(server *mcp.Server) {
	add := func(path, name, title, description, mediaType string, read func(context.Context) ([]byte, error)) {
		uri := e.Offer.URL(path)
		server.AddResource(
			&mcp.Resource{URI: uri, Name: name, Title: title, Description: description, MIMEType: mediaType},
			func(ctx context.Context, _ *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				text, err := read(ctx)
				if err != nil {
					e.Logger.Error("agent resource cannot be read", "resource", name, "error", err.Error(),
						"hint", "check the disk or the database of the ledger")
					return nil, &jsonrpc.Error{Code: codeInternal, Message: "the resource cannot be read now; read it again later"}
				}
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: mediaType, Text: string(text)}}}, nil
			})
	}
	amount := e.Offer.Amount.String() + " USD"
	add(offer.PathInvoice, "invoice", "Invoice over "+amount,
		"Every way to pay "+amount+" now, as JSON. An invoice is not a payment.", typeJSON,
		func(context.Context) ([]byte, error) { return document.Invoice(e.Offer, e.Live()).Body, nil })
	add(offer.PathSkill, "skill", "How to pay "+amount,
		"Instructions for an agent: how to pay by each rail, and what to check before.", typeMarkdown,
		func(context.Context) ([]byte, error) { return document.Skill(e.Offer).Body, nil })
	add(offer.PathReceived, "received", "Payments received",
		"Sums of the payments that arrived, for each rail, and how well each is observed, as JSON.", typeJSON,
		func(ctx context.Context) ([]byte, error) { return e.Summary(ctx) })
}

// addPrompt adds a prompt without text of the operator, because the client sends it in the person's name.
func (e *Endpoint) addPrompt(server *mcp.Server) {
	amount := e.Offer.Amount.String() + " USD"
	prompt := &mcp.Prompt{Name: "pay", Title: "Pay " + amount, Description: "Shows every way to pay " + amount + " here. It pays nothing."}
	text := "Call the tool " + document.ToolName + " and show me every way to pay " + amount + ", with the payee and the exact amounts. " +
		"Pay nothing before I have approved the amount and the payee."
	server.AddPrompt(prompt, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{
			Description: prompt.Description,
			Messages:    []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}},
		}, nil
	})
}
