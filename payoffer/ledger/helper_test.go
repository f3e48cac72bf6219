package ledger

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/observations"
)

func ptr[T any](v T) *T { return &v }

// must fails the test if a call fails, and returns its value: must(call())(t).
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

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

// find is must for a call that also reports whether there is a value.
func find[T any](value T, found bool, err error) func(t testing.TB) (T, bool) {
	return func(t testing.TB) (T, bool) {
		t.Helper()
		require.NoError(t, err)
		return value, found
	}
}

func mustRecord(t testing.TB, l *Ledger, s Observation) Receipt {
	t.Helper()
	receipts := must(l.Record(t.Context(), nil, s))(t)
	require.Len(t, receipts, 1)
	return receipts[0]
}

func mustIntent(t testing.TB, l *Ledger, key IntentKey) Intent {
	t.Helper()
	i, found := find(l.Intent(t.Context(), key))(t)
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
	transitions := must(l.Transitions(t.Context(), testOffer, 0, 1000))(t)
	for _, tr := range transitions {
		lines = append(lines, fmt.Sprintf("%s %d %s>%s", tr.ExternalID, tr.Version, tr.From, tr.To))
	}
	return lines
}

// errorOf is the error of a call.
func errorOf[T any](_ T, err error) error { return err }
