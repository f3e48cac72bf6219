package ledger

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPayloadsAreKeptAsLongAsTheyCanBeSent(t *testing.T) {
	eachDialect(t, func(t *testing.T, d testDialect) {
		ctx := t.Context()
		l, clock := d.ledger(t)
		const end = 1_300
		intent := func(payer string, decide func(key IntentKey) error) Intent {
			i := testIntent(payer, "0x01")
			i.ValidBefore, i.Secret, i.Payload, i.Requirement = end, "5ec4e7", []byte(`{"signature":"0x"}`), []byte(`{"amount":"1"}`)
			require.NoError(t, l.InsertIntent(ctx, i))
			require.NoError(t, decide(i.IntentKey))
			return i
		}
		settled := intent("0xa", func(key IntentKey) error { return l.SettleIntent(ctx, key, "0x1", []byte(`{}`), EvidenceFacilitator) })
		refused := intent("0xb", func(key IntentKey) error { return l.RefuseIntent(ctx, key, "expired") })
		open := intent("0xc", func(IntentKey) error { return nil })
		kept := func(i Intent) bool {
			t.Helper()
			stored := mustIntent(t, l, i.IntentKey)
			require.Equal(t, i.Fingerprint, stored.Fingerprint)
			require.Equal(t, i.Secret, stored.Secret, "the payer can come back later")
			require.Equal(t, len(stored.Payload) > 0, len(stored.Requirement) > 0)
			return len(stored.Payload) > 0
		}
		clock.set(end + int64(payloadMargin/time.Second))
		require.NoError(t, l.DeletePayloads(ctx))
		for _, i := range []Intent{settled, refused, open} {
			require.True(t, kept(i), "a day has not passed")
		}
		clock.unix++
		require.NoError(t, l.DeletePayloads(ctx))
		require.False(t, kept(settled))
		require.False(t, kept(refused))
		require.True(t, kept(open), "nobody knows what became of it")
		stored := mustIntent(t, l, settled.IntentKey)
		require.Equal(t, `{}`, string(stored.Answer), "who asks again is answered")
		requireConsistent(t, l)
	})
}
