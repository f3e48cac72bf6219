package document

import (
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func agentOperations() []operation {
	answer := media(typeJSON, ref("JSONRPCResponse"))
	return []operation{{
		method: http.MethodPost, path: offer.PathMCP, id: "postMCP", tag: tagAgents,
		summary: "Agent endpoint: MCP and A2A by JSON-RPC 2.0",
		description: "Call the method tools/call with the tool `" + ToolName + "` for every way to pay. Where the result demands a " +
			"payment, the same call with the signed payment in its _meta settles it. A2A clients send message/send or SendMessage.",
		body: object{
			{"required", true},
			{"content", object{media(typeJSON, ref("JSONRPCRequest"))}},
		},
		responses: object{
			on("200", contents("The JSON-RPC response.", answer)),
			on("202", object{{"description", "A notification was accepted."}}),
			on("4XX", contents("Refused, with the JSON-RPC error.", answer)),
			on("5XX", contents("Failed, with the JSON-RPC error.", answer)),
		},
	}}
}

// rpcSchemas are the messages of the agent endpoint (JSON-RPC 2.0 sections 4
// and 5).
func rpcSchemas() []member {
	version := member{"jsonrpc", constant("2.0")}
	id := member{"id", object{{"description", "A string or an integer; the response repeats it, or has null where it could not be read."}}}
	return []member{
		{"JSONRPCRequest", record([]string{"jsonrpc", "method"}, version, id,
			member{"method", text()},
			member{"params", object{{"type", "object"}}})},
		{"JSONRPCResponse", record([]string{"jsonrpc"}, version, id,
			member{"result", object{{"type", "object"}}},
			member{"error", record([]string{"code", "message"},
				member{"code", object{{"type", "integer"}}},
				member{"message", text()},
				member{"data", object{{"description", "What else is known of the error."}}})})},
	}
}

// agentCardSchema is the card of A2A 0.3.0 with the members of the offer
// (specification section 2.2).
func agentCardSchema() object {
	return record(
		[]string{
			"protocolVersion", "name", "description", "url", "version", "provider", "capabilities", "defaultInputModes",
			"defaultOutputModes", "preferredTransport", "skills", "card", "fallback",
		},
		member{"protocolVersion", constant("0.3.0")},
		member{"name", text()},
		member{"description", text()},
		member{"url", uri("The agent endpoint.")},
		member{"version", text()},
		member{"provider", whole(member{"organization", text()}, member{"url", uri("The operator's site.")})},
		member{"documentationUrl", uri("The source code.")},
		member{"capabilities", record([]string{"streaming", "pushNotifications"},
			member{"streaming", boolean()},
			member{"pushNotifications", boolean()},
			member{"extensions", listOf(record([]string{"uri"},
				member{"uri", uri("What the extension is.")}, member{"description", text()}, member{"required", boolean()}))})},
		member{"defaultInputModes", listOf(text())},
		member{"defaultOutputModes", listOf(text())},
		member{"preferredTransport", text()},
		member{"supportedInterfaces", listOf(whole(
			member{"url", uri("The agent endpoint.")}, member{"protocolBinding", text()}, member{"protocolVersion", text()}))},
		member{"skills", listOf(record([]string{"id", "name", "description", "tags"},
			member{"id", text()},
			member{"name", text()},
			member{"description", text()},
			member{"tags", listOf(text())},
			member{"examples", listOf(text())}))},
		member{"card", uri("The card checkout.")},
		member{"fallback", ref("Fallback")},
	)
}
