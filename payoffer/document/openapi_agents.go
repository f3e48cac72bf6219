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
// and 5), which no Go type of ours describes: the MCP SDK writes some of them.
func rpcSchemas() []member {
	record := func(required []string, properties ...member) object {
		return object{{"type", "object"}, {"required", required}, {"properties", object(properties)}}
	}
	version := member{"jsonrpc", object{{"type", "string"}, {"const", "2.0"}}}
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
