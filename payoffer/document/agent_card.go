package document

import (
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// A2APayments name the A2A extension for payments by x402, versions 0.1 and 0.2. Their standalone flows are the same.
var A2APayments = []string{
	"https://github.com/google-a2a/a2a-x402/v0.1",
	"https://github.com/google-agentic-commerce/a2a-x402/blob/main/spec/v0.2",
}

// agentCard is an A2A 0.3.0 agent card with the offer's own members
// (docs/developing/decisions.md).
type agentCard struct {
	ProtocolVersion    string            `json:"protocolVersion"`
	Name               string            `json:"name"`
	Description        string            `json:"description"`
	URL                string            `json:"url" jsonschema:"The agent endpoint."`
	Version            string            `json:"version"`
	Provider           agentProvider     `json:"provider"`
	DocumentationURL   string            `json:"documentationUrl" jsonschema:"The source code."`
	Capabilities       agentCapabilities `json:"capabilities"`
	DefaultInputModes  []string          `json:"defaultInputModes"`
	DefaultOutputModes []string          `json:"defaultOutputModes"`
	PreferredTransport string            `json:"preferredTransport"`
	// Interfaces is required by A2A 1.0 clients; 0.3.0 clients ignore it.
	Interfaces []agentInterface `json:"supportedInterfaces"`
	Skills     []agentSkill     `json:"skills"`
	Card       string           `json:"card"`
	Fallback   offer.Fallback   `json:"fallback"`
}

type agentProvider struct {
	Organization string `json:"organization"`
	URL          string `json:"url" jsonschema:"The operator's site."`
}

type agentCapabilities struct {
	Streaming         bool `json:"streaming"`
	PushNotifications bool `json:"pushNotifications"`
	// Extensions is empty without a USDC rail.
	Extensions []agentExtension `json:"extensions,omitempty"`
}

type agentExtension struct {
	URI         string `json:"uri" jsonschema:"The extension's specification."`
	Description string `json:"description"`
	Required    bool   `json:"required"` // false, because clients may only ask how to pay
}

type agentInterface struct {
	URL             string `json:"url" jsonschema:"The agent endpoint."`
	ProtocolBinding string `json:"protocolBinding"`
	ProtocolVersion string `json:"protocolVersion"`
}

type agentSkill struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	Examples    []string `json:"examples"`
}

// AgentCard is the agent card for A2A 0.3.0 and 1.0. It names x402 only if the offer has a
// USDC rail.
func AgentCard(o *offer.Offer) Document {
	const transport = "JSONRPC"
	endpoint, modes := o.URL(offer.PathMCP), []string{"application/json", "text"}
	var extensions []agentExtension
	tags := []string{"payment", offer.SchemeCard}
	if len(o.USDC()) > 0 {
		tags = append(tags, "x402", "usdc")
		for _, uri := range A2APayments {
			extensions = append(extensions, agentExtension{
				URI: uri, Description: "Takes the payment of " + price(o) + " by x402 in a message, if a person has authorised it.",
			})
		}
	}
	examples := []string{
		"How can I pay " + price(o) + " to " + o.Operator + "?",
		"Show me the payment addresses of " + o.Name + ".",
	}
	for _, g := range o.Gates {
		examples = append(examples, "How can I open "+g.Start+"?")
	}
	var methods []string
	for _, r := range o.Rails {
		methods = append(methods, unpricedMethod(o, r).Title)
	}
	return JSON(typeJSON, agentCard{
		ProtocolVersion: "0.3.0", Name: o.Name, Description: o.Description,
		URL: endpoint, Version: "0.2",
		Provider:          agentProvider{Organization: o.Operator, URL: o.SiteURL},
		DocumentationURL:  o.SourceURL,
		Capabilities:      agentCapabilities{Extensions: extensions},
		DefaultInputModes: modes, DefaultOutputModes: modes, PreferredTransport: transport,
		Interfaces: []agentInterface{{endpoint, transport, "1.0"}, {endpoint, transport, "0.3"}},
		Skills: []agentSkill{{
			ID: skillID, Name: "Pay " + price(o), Tags: tags,
			Description: "Answers with every way to make one fixed payment of " + price(o) + " to " + o.Operator + ": " +
				strings.Join(methods, "; ") + ". The answer is a quote, not a payment.",
			Examples: examples,
		}},
		Card: o.Card.URL, Fallback: o.Card.Fallback(),
	})
}
