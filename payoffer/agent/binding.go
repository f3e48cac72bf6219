package agent

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// paymentExtension is the MCP extension by which a client says, with each call,
// that it knows demands for payment (x402 version 2, MCP transport, extension
// binding). It needs the MCP revision newestMCP.
const paymentExtension = "org.x402/payment"

// bindPayment writes demands for payment by the extension binding for clients
// that know it, and leaves them in the tool-result binding for all others.
func bindPayment(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, request)
		called, ok := result.(*mcp.CallToolResult)
		if err != nil || !ok || called.Meta[metaRequired] == nil || !knowsDemands(request.GetParams().GetMeta()) {
			return result, err
		}
		return &paymentRequired{called}, nil
	}
}

// knowsDemands reads the _meta of a request.
func knowsDemands(meta map[string]any) bool {
	version, _ := meta[mcp.MetaKeyProtocolVersion].(string)
	capabilities, _ := meta[mcp.MetaKeyClientCapabilities].(map[string]any)
	extensions, _ := capabilities["extensions"].(map[string]any)
	_, known := extensions[paymentExtension]
	return known && version >= newestMCP
}

// paymentRequired is a demand for payment as a result type of its own.
type paymentRequired struct{ *mcp.CallToolResult }

// MarshalJSON writes the demand's structured content as paymentRequired, and
// what else stands in _meta.
func (p *paymentRequired) MarshalJSON() ([]byte, error) {
	meta := maps.Clone(p.Meta)
	delete(meta, metaRequired)
	return json.Marshal(map[string]any{"resultType": "payment_required", "paymentRequired": p.StructuredContent, "_meta": meta})
}
