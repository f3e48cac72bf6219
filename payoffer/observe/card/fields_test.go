package card

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseFieldsRejectsAnythingButOneObject(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, `null`, `[]`, `"a"`, `{"a":1`, `{"a":1}x`, `{"a":1}{}`,
	} {
		require.Error(t, parseFields([]byte(text)).err, text)
	}
}

// A payer's name that some program cut in two must not lose the event.
func TestParseFieldsTakesTextThatIsNotUnicode(t *testing.T) {
	t.Parallel()
	f := parseFields([]byte(`{"id":"evt_1","ID":"other","customer_details":{"name":"\ud83d"},"note":"` + "\xff" + `"}`))
	require.NoError(t, f.err)
	require.Equal(t, "evt_1", f.id("id", "evt_"))
}
