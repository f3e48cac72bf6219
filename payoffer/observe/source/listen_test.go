package source

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestListenersAreToldUntilTheyStop(t *testing.T) {
	var l Listeners
	l.Tell()
	var told []string
	first := l.Listen(func() { told = append(told, "first") })
	second := l.Listen(func() { told = append(told, "second") })
	l.Tell()
	first()
	first()
	l.Tell()
	second()
	l.Tell()
	require.Equal(t, []string{"first", "second", "second"}, told)
}

func TestDefaultsFillWhatIsLeftOut(t *testing.T) {
	var (
		now    func() time.Time
		random func() float64
		logger *slog.Logger
	)
	Default(&now, &random, &logger)
	require.False(t, now().IsZero())
	require.Less(t, random(), 1.0)
	logger.Info("is heard by nobody")

	ours := slog.New(slog.DiscardHandler)
	now, random, logger = func() time.Time { return time.Unix(7, 0) }, func() float64 { return 0.5 }, ours
	Default(&now, &random, &logger)
	require.Equal(t, time.Unix(7, 0), now())
	require.Equal(t, 0.5, random())
	require.Same(t, ours, logger)
}
