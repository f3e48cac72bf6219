package web

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// enum is the values that the API description lists for a member of a schema.
func enum(t *testing.T, schema, member string) (values []string) {
	t.Helper()
	at := readJSON(t, send(t, newWorld(t).server(t), "GET", "/openapi.json", ""))
	for _, name := range []string{"components", "schemas", schema, "properties", member} {
		at = at[name].(map[string]any)
	}
	for _, value := range at["enum"].([]any) {
		if value, isString := value.(string); isString { // else null
			values = append(values, value)
		}
	}
	require.NotEmpty(t, values)
	return values
}

func TestEveryPublishedValueHasItsTextInEveryLanguage(t *testing.T) {
	for _, c := range []struct{ schema, member, before, after string }{
		{"RailReport", "lastError", "received.error.", ""}, {"RailReport", "state", "received.observed.", ""},
		{"Receipt", "evidence", "received.proof.", ""}, {"Receipt", "status", "received.status.", ""},
		{"Arrival", "state", "thanks.", ".title"}, {"Arrival", "state", "thanks.", ".how"},
	} {
		for _, l := range text.Languages {
			for _, value := range enum(t, c.schema, c.member) {
				key := c.before + value + c.after
				require.NotEqual(t, key, l.Text(key), l.Tag)
			}
		}
	}
	require.Equal(t, enum(t, "Receipt", "status"), enum(t, "Transition", "to"))
	require.Len(t, text.Languages[0].Group("received.error"), len(enum(t, "RailReport", "lastError")), "a text whose code is not published")
}
