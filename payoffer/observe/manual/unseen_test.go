package manual

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A reference is published, and a reason is read in a terminal.
func TestAnEntryHoldsNothingThatIsNotSeen(t *testing.T) {
	for _, unseen := range []string{"\u2028", "\u2029", "\u200b", "\u200d", "\ufeff", "\u202e", "\u2066", "\u200f", "\u00ad", "\u3164", "\ufe0f\ufe0f"} {
		text := "INV" + unseen + "7"
		require.ErrorContains(t, Entry{Rail: "transfer", Reference: text}.Check(time.Now()), "the reference holds a character that cannot be printed", "%+q", unseen)
		require.ErrorContains(t, Entry{Rail: "transfer", Reference: "INV-7", Reason: text}.Check(time.Now()), "the reason holds a character", "%+q", unseen)
		require.ErrorContains(t, CheckReason(text), "the reason holds a character", "%+q", unseen)
	}
}
