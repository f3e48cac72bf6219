package excerpt

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// failed is a test that notes why it failed.
type failed struct {
	testing.TB
	message string
}

func (*failed) Helper() {}

func (f *failed) Fatalf(format string, values ...any) {
	f.message = fmt.Sprintf(format, values...)
	runtime.Goexit()
}

// message runs an assertion and returns why it failed; empty if it did not.
func message(assert func(testing.TB)) string {
	f, done := &failed{}, make(chan struct{})
	go func() {
		defer close(done)
		assert(f)
	}()
	<-done
	return f.message
}

func TestContainsPrintsNearbyText(t *testing.T) {
	text := strings.Repeat("a", 5000) + "<p>42 USD</p>" + strings.Repeat("b", 5000)
	require.Empty(t, message(func(t testing.TB) { Contains(t, text, "<p>42 USD</p>") }))
	got := message(func(t testing.TB) { Contains(t, text, "<p>42 EUR</p>", "in German") })
	require.Contains(t, got, `a<p>42 USD</p>b`)
	require.Contains(t, got, "in German")
	require.Less(t, len(got), 700)
	require.NotEmpty(t, message(func(t testing.TB) { Contains(t, "", "x") }))
}

func TestNotContainsPrintsNearbyText(t *testing.T) {
	text := strings.Repeat("a", 5000) + "secret" + strings.Repeat("b", 5000)
	require.Empty(t, message(func(t testing.TB) { NotContains(t, text, "password") }))
	got := message(func(t testing.TB) { NotContains(t, text, "secret") })
	require.Contains(t, got, "asecretb")
	require.Less(t, len(got), 700)
}
