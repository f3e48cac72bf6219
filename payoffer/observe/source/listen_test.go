package source

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListenersAreCalledUntilTheyStop(t *testing.T) {
	var l Listeners
	l.Notify()
	var called []string
	first := l.Listen(func() { called = append(called, "first") })
	second := l.Listen(func() { called = append(called, "second") })
	l.Notify()
	first()
	first()
	l.Notify()
	second()
	l.Notify()
	require.Equal(t, []string{"first", "second", "second"}, called)
}
