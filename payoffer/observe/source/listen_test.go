package source

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListenersAreCalledUntilTheyStop(t *testing.T) {
	var l Listeners
	l.Tell()
	var called []string
	first := l.Listen(func() { called = append(called, "first") })
	second := l.Listen(func() { called = append(called, "second") })
	l.Tell()
	first()
	first()
	l.Tell()
	second()
	l.Tell()
	require.Equal(t, []string{"first", "second", "second"}, called)
}
