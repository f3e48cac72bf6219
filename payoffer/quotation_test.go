package payoffer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/stretchr/testify/require"
)

// adaptShipped adapts the shipped Caddyfile after a change.
func adaptShipped(t *testing.T, old, changed string) error {
	t.Helper()
	shipped, err := os.ReadFile("../Caddyfile")
	require.NoError(t, err)
	require.Contains(t, string(shipped), old)
	text := []byte(strings.ReplaceAll(string(shipped), old, changed))
	file := filepath.Join(t.TempDir(), "Caddyfile")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	_, _, err = caddyconfig.GetAdapter("caddyfile").Adapt(text, map[string]any{"filename": file})
	return err
}

// A quotation mark in a variable ends the value in the file. The error says which variable
// it was and repeats nothing of it, and each thing that it advises is right.
func TestAQuotationMarkInAVariableIsNamed(t *testing.T) {
	for _, variable := range []string{"OFFER_NAME", "OPERATOR", "DESCRIPTION", "THANKS", "REFUNDS", "CONTACT", "CARD_URL", "TRANSFER_ACCOUNT_HOLDER"} {
		for _, value := range []string{`Sponsorship of "Beispiel" for one year`, `"Beispiel"`, `A 5" Beispiel`, `"Beispiel`} {
			t.Setenv(variable, value)
			err := adaptShipped(t, "{$", "{$")
			require.ErrorContains(t, err, "the environment variable "+variable+` holds a quotation mark, which ends the value there: leave it out, write \" in its place, or change {$`+
				variable+"} in the file to {env."+variable+"} without quotation marks around it", value)
			require.NotContains(t, err.Error(), "Beispiel")
		}
		require.NoError(t, os.Unsetenv(variable))
	}
	t.Setenv("OFFER_NAME", `Sponsorship of \"Beispiel\"`)
	require.NoError(t, adaptShipped(t, "{$", "{$"))
	t.Setenv("OFFER_NAME", `Sponsorship of "Beispiel"`)
	require.NoError(t, adaptShipped(t, `"{$OFFER_NAME}"`, "{env.OFFER_NAME}"))
	t.Setenv("OFFER_NAME", "Beispiel")
	t.Setenv("CARD_URL", "none")
	require.NotContains(t, adaptShipped(t, "{$", "{$").Error(), "quotation mark")
}
