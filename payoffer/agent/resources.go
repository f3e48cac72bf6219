package agent

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Media types of the resources.
const (
	typeJSON     = "application/json"
	typeMarkdown = "text/markdown"
)

// addResources adds what a client may read beside the tool. Each has the
// address at which the same document is served by HTTP.
func (e *Endpoint) addResources(server *mcp.Server) {
	add := func(path, name, title, description, mediaType string, read func(context.Context) ([]byte, error)) {
		uri := e.Offer.URL(path)
		server.AddResource(
			&mcp.Resource{URI: uri, Name: name, Title: title, Description: description, MIMEType: mediaType},
			func(ctx context.Context, _ *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				text, err := read(ctx)
				if err != nil {
					e.Logger.Error("a resource of the agent endpoint cannot be read", "resource", name, "error", err.Error())
					return nil, &jsonrpc.Error{Code: codeInternal, Message: "the resource cannot be read now; ask again later"}
				}
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: mediaType, Text: string(text)}}}, nil
			})
	}
	amount := e.Offer.Amount.String() + " USD"
	add(offer.PathInvoice, "invoice", "Invoice over "+amount,
		"Every way to pay "+amount+" now, as JSON. An invoice is no payment.", typeJSON,
		func(context.Context) ([]byte, error) { return document.Invoice(e.Offer, e.Live()).Body, nil })
	add(offer.PathSkill, "skill", "How to pay "+amount,
		"Instructions for an agent: how to pay by each rail, and what to check before.", typeMarkdown,
		func(context.Context) ([]byte, error) { return document.Skill(e.Offer).Body, nil })
	add(offer.PathReceived, "received", "Payments received",
		"Sums of the payments that arrived, for each rail, and how well each is observed, as JSON.", typeJSON,
		func(ctx context.Context) ([]byte, error) { return e.Summary(ctx) })
}

// addPrompt adds what a person may choose in a client to be shown the ways to
// pay: prompts, unlike tools, are started by people. No text of the operator
// stands in it, for it is said in the person's name.
func (e *Endpoint) addPrompt(server *mcp.Server) {
	amount := e.Offer.Amount.String() + " USD"
	prompt := &mcp.Prompt{Name: "pay", Title: "Pay " + amount, Description: "Shows every way to pay " + amount + " here. It pays nothing."}
	say := "Call the tool " + document.ToolName + " and show me every way to pay " + amount + ", with the payee and the exact amounts. " +
		"Pay nothing before I have approved the amount and the payee."
	server.AddPrompt(prompt, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{
			Description: prompt.Description,
			Messages:    []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: say}}},
		}, nil
	})
}
