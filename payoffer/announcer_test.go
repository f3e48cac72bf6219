package payoffer

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Observers and announcements begin at the same moment: what one of them
// records at once has its place in the outbox all the same.
func TestWhatIsRecordedRightAfterTheStartIsAnnounced(t *testing.T) {
	i := newInstance(t)
	app, svc := i.provision()
	require.NoError(t, app.open(app.running()))
	recordIn(t, svc)

	now := time.Now().Unix()
	after, held, err := app.share.Ledger.LeaseSink(t.Context(), svc.Offer.ID, "events", "test", now, now)
	require.NoError(t, err)
	require.True(t, held)
	require.Zero(t, after, "the receipt is still to be announced")
}
