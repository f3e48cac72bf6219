package payoffer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/stretchr/testify/require"
)

// adapt turns a Caddyfile into JSON. Its name in errors is Caddyfile.
func adapt(t *testing.T, caddyfile string) (string, error) {
	t.Helper()
	result, warnings, err := adaptAny(caddyfile)
	if err == nil {
		require.Empty(t, warnings)
	}
	return result, err
}

// adaptAny is adapt for a Caddyfile that 'caddy fmt' did not see.
func adaptAny(caddyfile string) (string, []caddyconfig.Warning, error) {
	result, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	return string(result), warnings, err
}

// Each file holds a Caddyfile and, below a line of hyphens, the JSON or the
// error of 'caddy validate'; -update writes the errors.
func TestCaddyfileAdaptsAsWritten(t *testing.T) {
	// What {$NAME} holds is part of the configuration; what {env.NAME} holds
	// must never be.
	t.Setenv("OFFER_TEST_VISIBLE", "visible name")
	t.Setenv("OFFER_TEST_HIDDEN", "hidden-secret")
	t.Setenv("OFFER_TEST_EMPTY", "")
	files := must(filepath.Glob("testdata/adapt/*.caddyfiletest"))(t)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".caddyfiletest"), func(t *testing.T) {
			content := must(os.ReadFile(file))(t)
			caddyfile, want, found := strings.Cut(string(content), "\n----------\n")
			require.True(t, found, "no line of hyphens")
			want = strings.TrimSpace(want)

			got, err := adapt(t, caddyfile+"\n")
			if err == nil && !strings.HasPrefix(want, "{") {
				err = caddy.Validate(decode(t, got))
			}
			if *update && err != nil {
				require.NoError(t, os.WriteFile(file, []byte(caddyfile+"\n----------\n"+err.Error()+"\n"), 0o644))
			}

			require.NotContains(t, got, "hidden-secret")
			if strings.HasPrefix(want, "{") {
				require.NoError(t, err)
				require.JSONEq(t, want, got)
				return
			}
			require.EqualError(t, err, want)
		})
	}
}
