package payoffer

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"unicode"

	"github.com/caddyserver/caddy/v2"
	"github.com/stretchr/testify/require"
)

// What nobody sees is in no option, in the Caddyfile nor as what a placeholder became.
func TestNoOptionTakesWhatIsNotSeen(t *testing.T) {
	for _, place := range slices.Sorted(maps.Keys(misplacedAt)) {
		line := misplacedAt[place]
		if line == "" || place == "an argument too many" || place == "a secret and another" {
			continue
		}
		for _, unseen := range []rune{'\u2028', '\u2029', '\u200b', '\u200d', '\u2060', '\ufeff', '\u202e', '\u2066', '\u200f', '\u00ad', '\u3164', '\U000e0041'} {
			value := fmt.Sprintf("pay%cme", unseen)
			_, _, err := adaptAny(offering(line, `"`+value+`"`))
			require.Error(t, err, "%s: %U", place, unseen)
			if !unicode.IsGraphic(unseen) { // others have an outline of their own
				require.NotContains(t, err.Error(), string(unseen), place)
			}
		}
		t.Setenv("OFFER_TEST_UNSEEN", "pay\u2028me")
		config, _, err := adaptAny(offering(line, "{env.OFFER_TEST_UNSEEN}"))
		if err == nil {
			err = caddy.Validate(decode(t, config))
		}
		if err == nil { // a number is none, and read from the Caddyfile alone
			require.Contains(t, []string{"usdc from_block", "bitcoin confirmations"}, place)
		}
	}
}
