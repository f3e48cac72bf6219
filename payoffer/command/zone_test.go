package command

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

// Go takes UTC for a zone that it does not know.
func TestAnUnknownTimeZoneBooksNothing(t *testing.T) {
	for zone, known := range map[string]bool{
		"Europe/Berlin": true, ":Europe/Berlin": true, "UTC": true, "": true,
		"Europe/Berln": false, "CET-1CEST": false, "/no/such/file": false, "../Berlin": false,
	} {
		t.Setenv("TZ", zone)
		if known {
			require.NoError(t, checkZone(), zone)
			continue
		}
		api := movements(t, operator.MovementsEnd{})
		_, _, err := api.exported()
		require.ErrorContains(t, err, "the variable TZ is not known", zone)
		_, err = api.run(recordCommand(), "--rail", "transfer", "--reference", "INV-7", "--amount", "42", "--date", "2026-11-20")
		require.ErrorContains(t, err, "the variable TZ is not known", zone)
		require.Empty(t, api.asked)
	}
}
