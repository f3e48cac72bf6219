package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/agent"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/web"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// startFixtures serves the offer in this process through all that the plugin has before the agent endpoint, with the tools, resources and prompts beside the offer's that
// the conformance suite calls by name. It returns the endpoint's address.
func startFixtures(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	base := "http://localhost:" + port
	card, err := offer.NewCard("https://checkout.example/pay", nil, 4200)
	require.NoError(t, err)
	o, err := offer.New(offer.Terms{ID: "fixtures", BaseURL: base, SiteURL: base, Name: "Fixtures", Operator: "Test", Amount: 4200}, card)
	require.NoError(t, err)
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	payments, err := x402.New(x402.Config{Offer: o, Now: time.Now, Logger: logger})
	require.NoError(t, err)
	endpoint, err := agent.New(agent.Config{
		Offer: o, Live: func() offer.Live { return offer.Live{} }, Payments: payments, Logger: logger,
		PaidURL:  func(x402.Outcome) string { return "" },
		Summary:  func(context.Context) (json.RawMessage, error) { return json.RawMessage(`{}`), nil },
		ClientIP: func(*http.Request) string { return "" },
	})
	require.NoError(t, err)
	addFixtures(endpoint.Server())
	now := time.Now
	site, err := web.New(web.Config{
		Offer: o, Payments: payments, Agent: endpoint, Receipts: ledger.NewSQLite("", now), Now: now, Logger: logger,
		Live:     func() offer.Live { return offer.Live{} },
		Health:   func() []observe.Health { return nil },
		QRKey:    func() []byte { return nil },
		ClientIP: func(*http.Request) string { return "" },
	})
	require.NoError(t, err)
	handler := func(w http.ResponseWriter, r *http.Request) {
		if !site.Serve(w, r) {
			http.NotFound(w, r)
		}
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(handler)}}
	server.Start()
	t.Cleanup(server.Close)
	return base + offer.PathMCP
}

// Contents that the suite looks at by their type.
var (
	image    = &mcp.ImageContent{Data: []byte("\x89PNG\r\n\x1a\n"), MIMEType: "image/png"}
	audio    = &mcp.AudioContent{Data: []byte("RIFF\x24\x00\x00\x00WAVE"), MIMEType: "audio/wav"}
	embedded = embed("test://embedded-resource")
)

func embed(uri string) *mcp.EmbeddedResource {
	return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: uri, MIMEType: "text/plain", Text: "An embedded resource."}}
}

func text(format string, arguments ...any) *mcp.TextContent {
	return &mcp.TextContent{Text: fmt.Sprintf(format, arguments...)}
}

func addFixtures(server *mcp.Server) {
	for name, contents := range map[string][]mcp.Content{
		"test_simple_text":            {text("This is a simple text response for testing.")},
		"test_image_content":          {image},
		"test_audio_content":          {audio},
		"test_embedded_resource":      {embedded},
		"test_multiple_content_types": {text("Text"), image, embedded},
		"test_streaming_elicitation":  {text("Nothing is asked for.")},
		"json_schema_2020_12_tool":    {text("Called.")},
		"test_x_mcp_header":           {text("Called.")},
	} {
		addTool(server, name, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: contents}, nil
		})
	}
	addTool(server, "test_error_handling", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		result := new(mcp.CallToolResult)
		result.SetError(errors.New("this tool intentionally returns an error for testing"))
		return result, nil
	})
	for _, name := range []string{"test_logging_tool", "test_tool_with_logging"} {
		addTool(server, name, func(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			//lint:ignore SA1019 the scenarios are about it
			err := request.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: "called"})
			return &mcp.CallToolResult{Content: []mcp.Content{text("Logged.")}}, err
		})
	}
	addTool(server, "test_tool_with_progress", func(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		token := request.Params.GetProgressToken()
		for progress := range 3 {
			if err := request.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(50 * progress), Total: 100}); err != nil {
				return nil, err
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{text("%v", token)}}, nil
	})
	addTool(server, "test_missing_capability", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, &jsonrpc.Error{
			Code: mcp.CodeMissingRequiredClientCapabilities, Message: "the client cannot sample",
			Data: json.RawMessage(`{"requiredCapabilities":{"sampling":{}}}`),
		}
	})
	addResources(server)
	addPrompts(server)
}

func addTool(server *mcp.Server, name string, handler mcp.ToolHandler) {
	schema := `{"type":"object"}`
	switch name {
	case "json_schema_2020_12_tool":
		schema = schema2020
	case "test_x_mcp_header":
		schema = `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer"}}}`
	}
	server.AddTool(&mcp.Tool{Name: name, Description: "A fixture of the conformance suite.", InputSchema: json.RawMessage(schema)}, handler)
}

// schema2020 has the words of JSON Schema 2020-12 that must come through unchanged.
const schema2020 = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
	"properties": {
		"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}, "phone": {"type": "string"}, "email": {"type": "string"},
		"contactMethod": {"type": "string", "enum": ["phone", "email"]}
	},
	"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
	"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
	"then": {"required": ["phone"]},
	"else": {"required": ["email"]},
	"additionalProperties": false
}`

func addResources(server *mcp.Server) {
	read := func(contents mcp.ResourceContents) mcp.ResourceHandler {
		return func(_ context.Context, request *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			contents := contents
			contents.URI = request.Params.URI
			id := strings.TrimSuffix(strings.TrimPrefix(contents.URI, "test://template/"), "/data")
			contents.Text = strings.ReplaceAll(contents.Text, "{id}", id)
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{&contents}}, nil
		}
	}
	server.AddResource(&mcp.Resource{URI: "test://static-text", Name: "text", MIMEType: "text/plain"},
		read(mcp.ResourceContents{MIMEType: "text/plain", Text: "This is the content of the static text resource."}))
	server.AddResource(&mcp.Resource{URI: "test://static-binary", Name: "binary", MIMEType: "image/png"},
		read(mcp.ResourceContents{MIMEType: "image/png", Blob: image.Data}))
	server.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "test://template/{id}/data", Name: "template", MIMEType: "application/json"},
		read(mcp.ResourceContents{MIMEType: "application/json", Text: `{"id":"{id}"}`}))
}

func addPrompts(server *mcp.Server) {
	add := func(name string, arguments []string, contents func(map[string]string) []mcp.Content) {
		prompt := &mcp.Prompt{Name: name, Description: "A fixture of the conformance suite."}
		for _, argument := range arguments {
			prompt.Arguments = append(prompt.Arguments, &mcp.PromptArgument{Name: argument, Required: true})
		}
		server.AddPrompt(prompt, func(_ context.Context, request *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			result := new(mcp.GetPromptResult)
			for _, content := range contents(request.Params.Arguments) {
				result.Messages = append(result.Messages, &mcp.PromptMessage{Role: "user", Content: content})
			}
			return result, nil
		})
	}
	add("test_simple_prompt", nil, func(map[string]string) []mcp.Content {
		return []mcp.Content{text("This is a simple prompt for testing.")}
	})
	add("test_prompt_with_arguments", []string{"arg1", "arg2"}, func(given map[string]string) []mcp.Content {
		return []mcp.Content{text("Prompt with arguments: arg1='%s', arg2='%s'", given["arg1"], given["arg2"])}
	})
	add("test_prompt_with_embedded_resource", []string{"resourceUri"}, func(given map[string]string) []mcp.Content {
		return []mcp.Content{embed(given["resourceUri"]), text("Please process the embedded resource above.")}
	})
	add("test_prompt_with_image", nil, func(map[string]string) []mcp.Content {
		return []mcp.Content{image, text("Please analyze the image above.")}
	})
}
