package ledger

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/sightings"
)

func ptr[T any](v T) *T { return &v }

// What the tests record.
var chainSighting, cardSighting, returned = sightings.Chain, sightings.Card, sightings.Returned

func testIntent(from, nonce string) Intent {
	return Intent{
		IntentKey: IntentKey{Network: "eip155:84532", Asset: "0xtoken", From: from, Nonce: nonce},
		Offer:     testOffer, Account: testAccount, Amount: 42_000_000, USDCents: ptr(int64(4200)),
		Fingerprint: "f-" + nonce, Version: 2, Payload: []byte(`{"p":1}`), Requirement: []byte(`{"r":1}`),
		Facilitator: "main", ValidBefore: 5_000, Owner: "attempt-1", LeaseUntil: 1_060,
	}
}

func mustRecord(t testing.TB, l *Ledger, s Sighting) Receipt {
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
	ctx := context.Background()
	totals, err := l.Totals(ctx, testOffer)
	require.NoError(t, err)
	scanned, err := collect(ctx, l, scanTotal, `
		SELECT offer, account, rail, currency, own, testnet, status, evidence_level, count(*), CAST(sum(amount) AS BIGINT),
			CAST(sum(refunded) AS BIGINT), CAST(sum(coalesce(usd_cents, 0)) AS BIGINT),
			CAST(sum(refunded_cents) AS BIGINT), count(*) - count(usd_cents)
		FROM (
			SELECT offer, account, rail, CASE WHEN evidence_level = 'chain' OR asset = 'USD' THEN '' ELSE asset END AS currency,
				own, testnet, status, evidence_level, amount,
				CASE WHEN refunded < amount THEN refunded ELSE amount END AS refunded, usd_cents, refunded_cents
			FROM receipts
			UNION ALL
			SELECT offer, account, rail, '', own, testnet, 'settling', '', amount, 0, usd_cents, 0
			FROM intents WHERE state = 'settling'
			UNION ALL
			SELECT offer, account, rail, '', own, testnet, 'claimed', 'asserted', amount, 0, usd_cents, 0
			FROM intents WHERE state = 'settled' AND evidence <> 'chain') AS entries
		WHERE offer = $1 GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY account, rail, currency, status, evidence_level, own, testnet`, testOffer)
	require.NoError(t, err)
	require.Equal(t, scanned, totals, "totals differ from a scan")

	var broken []string
	rows, err := l.db.read.QueryContext(ctx, `
		SELECT 'receipt ' || r.id || ' has a gap' FROM receipts r
		WHERE r.version <> (SELECT count(*) FROM transitions t WHERE t.receipt_id = r.id)
			OR r.version <> (SELECT max(version) FROM transitions t WHERE t.receipt_id = r.id)
			OR r.status <> (SELECT to_status FROM transitions t WHERE t.receipt_id = r.id AND t.version = r.version)
		UNION ALL
		SELECT 'transition ' || t.seq || ' does not follow' FROM transitions t
		LEFT JOIN transitions p ON p.receipt_id = t.receipt_id AND p.version = t.version - 1
		WHERE t.from_status <> coalesce(p.to_status, '') OR p.seq > t.seq
		UNION ALL
		SELECT 'return ' || w.return_id || ' is not with its row' FROM returns w
		LEFT JOIN receipts r ON r.account = w.account AND r.external_id = w.external_id
		WHERE coalesce(r.id, 0) <> coalesce(w.receipt_id, 0)
		UNION ALL
		SELECT 'total below zero' FROM totals
		WHERE count < 0 OR amount < 0 OR refunded < 0 OR usd_cents < 0 OR refunded_cents < 0 OR unknown_usd < 0`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		broken = append(broken, line)
	}
	require.NoError(t, rows.Err())
	require.Empty(t, broken)
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
