package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func TestResourcesAreTheServedDocuments(t *testing.T) {
	c := config(t, public)
	live := offer.Live{}
	c.Live = func() offer.Live { return live }
	c.Summary = func(context.Context) (json.RawMessage, error) { return json.RawMessage(`{"goalMet":false}`), nil }
	session := connect(t, newEndpoint(t, c))
	listed, err := session.ListResources(t.Context(), nil)
	require.NoError(t, err)
	types := make(map[string]string)
	for _, resource := range listed.Resources {
		types[resource.URI] = resource.MIMEType
	}
	base := "https://pay.example.org"
	require.Equal(t, map[string]string{
		base + "/v1/invoice": "application/json", base + "/skills/pay/SKILL.md": "text/markdown", base + "/v1/received": "application/json",
	}, types)

	read := func(path string) string {
		found, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: base + path})
		require.NoError(t, err)
		require.Len(t, found.Contents, 1)
		require.Equal(t, base+path, found.Contents[0].URI)
		require.Equal(t, types[base+path], found.Contents[0].MIMEType)
		return found.Contents[0].Text
	}
	require.Contains(t, read("/v1/invoice"), `"available": false`)
	live.Satoshis = 45000
	require.Contains(t, read("/v1/invoice"), `"amountAtomic": "45000"`, "it follows the rate")
	require.Contains(t, read("/skills/pay/SKILL.md"), "name: pay\n")
	require.JSONEq(t, `{"goalMet":false}`, read("/v1/received"))
}

func TestUnreadableResourceIsAnErrorWithoutDetails(t *testing.T) {
	var log strings.Builder
	c := config(t, public)
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c.Summary = func(context.Context) (json.RawMessage, error) { return nil, errors.New("database is gone") }
	e := newEndpoint(t, c)
	for uri, code := range map[string]int{"https://pay.example.org/v1/received": codeInternal, "https://pay.example.org/other": codeInvalidParams} {
		a := decode(t, post(t, e, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"`+uri+`"}}`))
		require.Equal(t, code, a.Error.Code)
		require.NotContains(t, a.Error.Message, "database")
	}
	require.Contains(t, log.String(), "database is gone")
}
