package web

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

// ledgers are an empty ledger of each database.
var ledgers = map[string]func(*testing.T) *ledger.Ledger{
	"sqlite": func(t *testing.T) *ledger.Ledger {
		return ledger.NewSQLite(filepath.Join(t.TempDir(), "ledger.db"), func() time.Time { return at })
	},
	"postgres": func(t *testing.T) *ledger.Ledger {
		return must(ledger.NewPostgres(postgres.Shared(t).DSN(t), func() time.Time { return at }))(t)
	},
}

func emptyLedger(t *testing.T, database string) *ledger.Ledger {
	t.Helper()
	l := ledgers[database](t)
	require.NoError(t, l.Open(t.Context()))
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// From the first answer to a payment on, through what chains and operators do to it.
func TestTheAddressOfAReceiptSurvivesWhatHappensToItsLedger(t *testing.T) {
	for database := range ledgers {
		t.Run(database, func(t *testing.T) {
			w := newWorld(t)
			usdc := w.offer.USDC()[0]
			l := emptyLedger(t, database)
			transfers := ledger.Account{Offer: w.offer.ID, ID: "operator/" + w.offer.ID + "/transfer", Rail: "transfer"}
			require.NoError(t, l.Register(t.Context(), ledger.Account{Offer: w.offer.ID, ID: usdc.Account(), Rail: "usdc"}, transfers))
			serve := func(l *ledger.Ledger) *Server {
				c := w.config()
				c.Receipts = l
				return must(New(c))(t)
			}
			s := serve(l)
			show := func(s *Server, id string) map[string]any {
				return readJSON(t, send(t, s, "GET", receiptPath(id), ""))
			}
			key := ledger.IntentKey{Network: usdc.Network.CAIP2(), Asset: usdc.Network.USDC, From: payer, Nonce: nonce}
			require.NoError(t, l.InsertIntent(t.Context(), ledger.Intent{
				IntentKey: key, Offer: w.offer.ID, Account: usdc.Account(), Amount: 42_000_000, USDCents: cents(42_00), Fingerprint: "f", Version: 2,
				Payload: []byte("{}"), Requirement: []byte("{}"), Facilitator: "main", ValidBefore: at.Unix() + 60, Owner: "o", LeaseUntil: at.Unix() + 60,
			}))
			id := intentID(qrKey, w.offer.ID, usdc.Account(), payer, nonce)
			require.Equal(t, "settling", show(s, id)["status"])
			require.NoError(t, l.SettleIntent(t.Context(), key, tx, []byte("{}"), ledger.EvidenceFacilitator))
			require.Equal(t, "claimed", show(s, id)["status"])

			backup := filepath.Join(t.TempDir(), "backup.db")
			must(l.Backup(t.Context(), backup))(t)

			sight := func(transaction string, state ledger.Status) ledger.Receipt {
				rows := must(l.Record(t.Context(), nil, ledger.Observation{
					Offer: w.offer.ID, Account: usdc.Account(), Rail: "usdc", ExternalID: "eip155:8453:" + transaction + ":0", Transaction: transaction, Asset: "USDC", Amount: 42_000_000,
					USDCents: cents(42_00), ValueBasis: ledger.BasisFace, State: state, EvidenceLevel: ledger.LevelChain, Payer: payer, Nonce: nonce, Intent: &key, OccurredAt: at.Unix(), Cause: "test",
				}))(t)
				return rows[0]
			}
			row := sight(tx, ledger.StatusSeen)
			require.Equal(t, id, receiptID(qrKey, row))
			require.Equal(t, "seen", show(s, id)["status"])
			sight(tx, ledger.StatusDropped)
			require.Equal(t, "settling", show(s, id)["status"], "the transaction has left the chain, and may come again")
			const again = "0xabcdef0000000000000000000000000000000000000000000000000000000002"
			row = sight(again, ledger.StatusConfirmed)
			require.Equal(t, id, receiptID(qrKey, row))
			require.Equal(t, []any{"confirmed", again}, []any{show(s, id)["status"], show(s, id)["transaction"]})

			// Another instance on the same ledger, and an older copy put back, into whatever
			// database.
			require.Equal(t, show(s, id), show(serve(l), id))
			for other := range ledgers {
				older := emptyLedger(t, other)
				must(older.Restore(t.Context(), backup))(t)
				require.Equal(t, "claimed", show(serve(older), id)["status"])
			}

			// What names somebody is taken out, and with it the address that held it.
			rows := must(l.Record(t.Context(), nil, ledger.Observation{
				Offer: w.offer.ID, Account: transfers.ID, Rail: "transfer", ExternalID: "jane@example.org", Asset: "USD", Amount: 42_00, USDCents: cents(42_00), ValueBasis: ledger.BasisFace,
				State: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelManual, OccurredAt: at.Unix(), Cause: "test",
			}))(t)
			named := receiptID(qrKey, rows[0])
			require.Equal(t, "jane@example.org", show(s, named)["id"])
			redacted, err := l.Redact(t.Context(), w.offer.ID, transfers.ID, "jane@example.org", "R-1", "asked for it")
			require.NoError(t, err)
			require.Equal(t, 404, send(t, s, "GET", receiptPath(named), "").StatusCode)
			require.Equal(t, "R-1", show(s, receiptID(qrKey, redacted))["id"])
		})
	}
}
