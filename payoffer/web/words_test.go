package web

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/text"
)

// enum are the words that the API description lists for a member of a schema.
func enum(t *testing.T, schema, member string) []any {
	t.Helper()
	w := newWorld(t)
	w.hooks = allHooks(new(receiver))
	at := readJSON(t, send(t, w.server(t), "GET", "/openapi.json", ""))
	for _, name := range []string{"components", "schemas", schema, "properties", member} {
		at = at[name].(map[string]any)
	}
	if choice, ok := at["oneOf"].([]any); ok {
		at = choice[0].(map[string]any)
	}
	return at["enum"].([]any)
}

// literals are the string constants of a file's declarations whose names begin
// with a prefix, the first of each.
func literals(t *testing.T, file, prefix string) []any {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	var found []any
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		first := true
		ast.Inspect(spec, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING && first {
				text, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				found, first = append(found, text), false
			}
			return true
		})
		return false
	})
	require.NotEmpty(t, found)
	return found
}

func TestEveryErrorCodeOfARailIsDescribedInEveryLanguage(t *testing.T) {
	codes := append(literals(t, "../observe/observe.go", "Err"), literals(t, "../observe/source/error.go", "")...)
	require.ElementsMatch(t, append(codes, nil), enum(t, "RailReport", "lastError"))
	for _, l := range text.Languages {
		require.Len(t, l.Group("received.error"), len(codes))
		for _, code := range codes {
			require.NotEmpty(t, l.Text("received.error."+code.(string)), code)
		}
	}
}

func TestEveryStatusAndEvidenceIsDescribed(t *testing.T) {
	levels := literals(t, "../ledger/accounting/standing.go", "Level")
	require.ElementsMatch(t, levels, enum(t, "Receipt", "evidence"))
	for _, level := range levels {
		for _, l := range text.Languages {
			require.NotEmpty(t, l.Text("received.proof."+level.(string)), level)
		}
	}
	var statuses []any
	for _, status := range literals(t, "../ledger/accounting/standing.go", "Status") {
		if status != "settling" && status != "claimed" { // sums, and of no receipt
			statuses = append(statuses, status)
		}
	}
	require.ElementsMatch(t, statuses, enum(t, "Receipt", "status"))
	for _, l := range text.Languages {
		for _, status := range statuses {
			require.NotEmpty(t, l.Text("received.status."+status.(string)), status)
		}
		for _, state := range enum(t, "RailReport", "state") {
			require.NotEmpty(t, l.Text("received.observed."+state.(string)), state)
		}
		for _, state := range enum(t, "Arrival", "state") {
			require.NotEmpty(t, l.Text("thanks."+state.(string)+".title")+l.Text("thanks."+state.(string)+".how"), state)
		}
	}
	require.ElementsMatch(t, statuses, enum(t, "Transition", "to"))
}
