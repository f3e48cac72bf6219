package payoffertest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// NtfyMessage is what an ntfy server takes as JSON at its root
// (https://docs.ntfy.sh/publish/#publish-as-json), as far as it is sent.
type NtfyMessage struct {
	Topic    string   `json:"topic"`
	Title    string   `json:"title"`
	Message  string   `json:"message"`
	Sequence string   `json:"sequence_id"`
	Tags     []string `json:"tags"`
	Priority int      `json:"priority"`
	Click    string   `json:"click"`
}

// Ntfy stands in for an ntfy server: a Receiver that takes messages alone, and
// fails the test for anything else.
type Ntfy struct {
	*Receiver
	// Token is the access token that it asks for, or empty. It is set before anything
	// is sent.
	Token string
}

// ntfyTopic stands for a topic that nobody guesses, which no log may show.
const ntfyTopic = "secret-path_42"

// ntfySequence is the form of a sequence (ntfy, server/server.go).
var ntfySequence = regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`)

// The sizes that a server takes by default, in bytes.
const ntfyMessageLimit, ntfyTitleLimit = 4096, 250

// NewNtfy starts one. It closes when the test ends.
func NewNtfy(tb testing.TB) *Ntfy {
	tb.Helper()
	n := new(Ntfy)
	n.Receiver = newReceiver(tb, "/"+ntfyTopic, func(a Announced) {
		m := n.read(a)
		assert.Equal(tb, http.MethodPost, a.Method)
		assert.Equal(tb, "/", a.Path, "JSON is taken at the root alone")
		if n.Token != "" {
			assert.Equal(tb, "Bearer "+n.Token, a.Header.Get("Authorization"))
		} else {
			assert.Empty(tb, a.Header.Get("Authorization"))
		}
		assert.Equal(tb, ntfyTopic, m.Topic)
		assert.Regexp(tb, ntfySequence, m.Sequence)
		assert.NotEmpty(tb, m.Message, "an empty message becomes the word triggered")
		assert.LessOrEqual(tb, len(m.Message), ntfyMessageLimit)
		assert.LessOrEqual(tb, len(m.Title), ntfyTitleLimit)
		assert.Contains(tb, []int{1, 2, 3, 4, 5}, m.Priority)
	})
	return n
}

// Messages are what it has taken, in the order of arrival.
func (n *Ntfy) Messages() (all []NtfyMessage) {
	for _, a := range n.Requests() {
		if a.Taken {
			all = append(all, n.read(a))
		}
	}
	return all
}

func (n *Ntfy) read(a Announced) (m NtfyMessage) {
	decoder := json.NewDecoder(bytes.NewReader(a.Body))
	decoder.DisallowUnknownFields()
	require.NoError(n.tb, decoder.Decode(&m), "%s", a.Body)
	return m
}
