package agent

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/payoffer/caddy-pay-offer/payoffer/document"
)

// addPrompt adds what a person may choose in a client to be shown the ways to
// pay: prompts, unlike tools, are started by people. No text of the operator
// stands in it, for it is said in the person's name.
func (e *Endpoint) addPrompt(server *mcp.Server) {
	amount := e.offer.Amount.String() + " USD"
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
