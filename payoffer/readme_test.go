package payoffer

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheExamplesOfTheReadmeLoad adapts every Caddyfile in the README that is
// no pattern with an ellipsis.
func TestTheExamplesOfTheReadmeLoad(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	examples := regexp.MustCompile("(?s)```caddyfile\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	loaded := 0
	for _, example := range examples {
		if regexp.MustCompile(`\.\.\.|\[<`).MatchString(example[1]) {
			continue
		}
		_, err := adapt(t, example[1])
		require.NoError(t, err, "%s", example[1])
		loaded++
	}
	require.Equal(t, 5, loaded, "the examples that can be loaded")
}
