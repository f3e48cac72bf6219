package document

import (
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// A2APayments names the A2A extension for payments by x402, version 0.1.
const A2APayments = "https://github.com/google-a2a/a2a-x402/v0.1"

// agentCard is an A2A 0.3.0 agent card with the offer's own members
// (specification section 2.2).
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
	// Interfaces is where A2A 1.0 clients look; those clients refuse a card
	// without it, and 0.3.0 clients ignore it.
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
	// Extensions is left out by an offer without a USDC rail.
	Extensions []agentExtension `json:"extensions,omitempty"`
}

type agentExtension struct {
	URI         string `json:"uri" jsonschema:"What the extension is."`
	Description string `json:"description"`
	// Required would shut out clients that only ask for the ways to pay.
	Required bool `json:"required"`
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

// AgentCard is the agent card of the agent endpoint, for A2A 0.3.0 and 1.0. Its
// one skill and its capabilities name the crypto rail only where that is
// offered.
func AgentCard(o *offer.Offer) Document {
	const transport = "JSONRPC"
	endpoint, modes := o.URL(offer.PathMCP), []string{"application/json", "text"}
	var extensions []agentExtension
	tags := []string{"payment", offer.SchemeCard}
	if len(o.USDC()) > 0 {
		tags = append(tags, "x402", "usdc")
		extensions = []agentExtension{{
			URI: A2APayments, Description: "Takes the payment of " + price(o) + " by x402 in a message, when a person has authorised it.",
		}}
	}
	var ways []string
	for _, r := range o.Rails {
		ways = append(ways, fixed(o, r).Title)
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
				strings.Join(ways, "; ") + ". The answer is a quote, not a payment.",
			Examples: []string{
				"How can I pay " + price(o) + " to " + o.Operator + "?",
				"Show me the payment addresses of " + o.Name + ".",
			},
		}},
		Card: o.Card.URL, Fallback: o.Card.Fallback(),
	})
}
