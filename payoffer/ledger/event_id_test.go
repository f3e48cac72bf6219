package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEventIDEscaping(t *testing.T) {
	for external, want := range map[string]string{
		"azAZ09-_:": "azAZ09-_:",
		"`{@[/;.":   "%60%7B%40%5B%2F%3B%2E",
		"\xff é":    "%FF%20%C3%A9",
	} {
		require.Equal(t, "card:"+want+":7:00000000000000ab", Transition{Rail: "card", ExternalID: external, Version: 7, Tag: 0xab}.EventID())
	}
}
