package ledger

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/observations"
)

func ptr[T any](v T) *T { return &v }

// What the tests record.
var chainObservation, cardObservation, returned = observations.Chain, observations.Card, observations.Returned

func testIntent(from, nonce string) Intent {
	return Intent{
		IntentKey: IntentKey{Network: "eip155:84532", Asset: "0xtoken", From: from, Nonce: nonce},
		Offer:     testOffer, Account: testAccount, Amount: 42_000_000, USDCents: ptr(int64(4200)),
		Fingerprint: "f-" + nonce, Version: 2, Payload: []byte(`{"p":1}`), Requirement: []byte(`{"r":1}`),
		Facilitator: "main", ValidBefore: 5_000, Owner: "attempt-1", LeaseUntil: 1_060,
	}
}

func mustRecord(t testing.TB, l *Ledger, s Observation) Receipt {
	t.Helper()
	receipts, err := l.Record(t.Context(), nil, s)
	require.NoError(t, err)
	require.Len(t, receipts, 1)
	return receipts[0]
}

func mustIntent(t testing.TB, l *Ledger, key IntentKey) Intent {
	t.Helper()
	i, found, err := l.Intent(t.Context(), key)
	require.NoError(t, err)
	require.True(t, found)
	return i
}

// requireConsistent compares what is kept in step with what a scan gives.
func requireConsistent(t testing.TB, l *Ledger) {
	t.Helper()
	require.NoError(t, l.Check(context.Background()))
}

// statuses lists an offer's transitions as "external id version from>to".
func statuses(t testing.TB, l *Ledger) (lines []string) {
	t.Helper()
	transitions, err := l.Transitions(t.Context(), testOffer, 0, 1000)
	require.NoError(t, err)
	for _, tr := range transitions {
		lines = append(lines, fmt.Sprintf("%s %d %s>%s", tr.ExternalID, tr.Version, tr.From, tr.To))
	}
	return lines
}
