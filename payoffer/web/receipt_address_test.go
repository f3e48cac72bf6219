package web

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
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
func TestReceiptAddressIsStable(t *testing.T) {
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
				Payload: []byte("{}"), Requirement: []byte("{}"), ValidBefore: at.Unix() + 60,
				Progress: ledger.Progress{Facilitator: "main", Owner: "o", LeaseUntil: at.Unix() + 60},
			}))
			id := intentID(qrKey, w.offer.ID, usdc.Account(), payer, nonce)
			require.Equal(t, "settling", show(s, id)["status"])
			_, err := l.Apply(t.Context(), key, ledger.IntentChange{Event: accounting.EventClaimed, Transaction: tx, Answer: []byte("{}")})
			require.NoError(t, err)
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

// What a signed receipt says stands although the transaction may still be another.
func TestReceiptIsPrivate(t *testing.T) {
	w := newWorld(t)
	id := receiptID(qrKey, w.payment(t, "usdc", nil))
	s := w.server(t)
	for _, target := range []string{receiptPath(id), receiptPath(id) + "/receipt.jws", receiptPath("none")} {
		for _, accept := range []string{"application/json", browser} {
			for _, method := range []string{"GET", "HEAD", "OPTIONS", "DELETE"} {
				res := send(t, s, method, target, "", "Accept", accept, "Origin", "https://evil.example")
				require.Empty(t, res.Header.Get("Access-Control-Allow-Origin"), "%s %s", method, target)
				if method == "OPTIONS" {
					require.Equal(t, 204, res.StatusCode)
					require.Equal(t, "GET, HEAD, OPTIONS", res.Header.Get("Allow"))
					continue
				}
				require.Equal(t, "no-store", res.Header.Get("Cache-Control"))
				if method == "DELETE" {
					require.Equal(t, 405, res.StatusCode)
					continue
				}
				require.Equal(t, "noindex", res.Header.Get("X-Robots-Tag"))
				require.Equal(t, "no-referrer", res.Header.Get("Referrer-Policy"))
				require.Empty(t, res.Header.Get("ETag"))
			}
		}
	}
	// Nothing else tells of it.
	for _, row := range rows {
		for _, accept := range []string{"*/*", browser} {
			res := send(t, s, row.method, row.target, "", "Accept", accept)
			require.NotContains(t, read(t, res), "/v1/receipt/"+id[:8], row.target)
			for name, values := range res.Header {
				require.NotContains(t, strings.Join(values, " "), id[:8], name)
			}
		}
	}
}

func TestReceiptAddressCannotBeGuessed(t *testing.T) {
	w := newWorld(t)
	row := w.payment(t, "usdc", func(r *ledger.Receipt) { r.Nonce = nonce })
	id := receiptID(qrKey, row)
	s := w.server(t)
	require.Equal(t, 200, send(t, s, "GET", receiptPath(id), "").StatusCode)
	name, mac, _ := strings.Cut(id, ".")
	other := []byte("fedcba9876543210fedcba9876543210")
	gone := row
	gone.Nonce, gone.ExternalID = "", "eip155:8453:0xgone:0"
	var answers []string
	for what, forged := range map[string]string{
		"empty": "", "a name alone": name, "a stop": ".", "no mac": name + ".", "another mac": name + "." + strings.Repeat("A", len(mac)),
		"another name": "YS8." + mac, "a longer one": id + "A", "a third part": id + ".x", "padded": id + "=", "a line break": id + "%0A", "a break inside": name[:4] + "%0D" + name[4:] + "." + mac,
		"another key": receiptID(other, row), "of another offer": newReceiptID(qrKey, "other", row.Account, row.Name()), "of another account": newReceiptID(qrKey, row.Offer, "stripe/former", row.Name()),
		"a QR address": strings.TrimSuffix(strings.TrimPrefix(qrPath(qrKey, "usdc", ledger.AuthorizationName(payer, nonce)), offer.PathQR+"/usdc/"), ".png"),
		"no such row":  receiptID(qrKey, gone), "no such name": newReceiptID(qrKey, row.Offer, row.Account, "x/1"), "half a name": newReceiptID(qrKey, row.Offer, row.Account, "a/"+payer),
		"of this, and further": id + "/x",
	} {
		for _, file := range []string{"", "/receipt.jws"} {
			res := send(t, s, "GET", receiptPath(forged)+file, "")
			require.Equal(t, 404, res.StatusCode, what)
			require.Equal(t, "application/problem+json", res.Header.Get("Content-Type"))
			answers = append(answers, read(t, res))
			require.Equal(t, answers[0], answers[len(answers)-1], "%s tells why it is refused", what)
		}
	}
	require.NotContains(t, answers[0], name)
}

// A transaction that was replaced is one payment of one address.
func TestAuthorizationReceiptAddressIsStable(t *testing.T) {
	w := newWorld(t)
	id := w.intent(t, ledger.IntentSettling, "")
	s := w.server(t)
	status := func() any { return readJSON(t, send(t, s, "GET", receiptPath(id), ""))["status"] }
	require.Equal(t, "settling", status())
	w.intents[0].State, w.intents[0].Evidence = ledger.IntentSettled, ledger.EvidenceFacilitator
	require.Equal(t, "claimed", status())
	row := w.payment(t, "usdc", func(r *ledger.Receipt) { r.Nonce = nonce })
	require.Equal(t, id, receiptID(qrKey, row))
	require.Equal(t, "confirmed", status())
	// The transaction left the chain, and the payment may still come.
	w.receipts[0].Status, w.intents[0].State = ledger.StatusDropped, ledger.IntentSettling
	require.Equal(t, "settling", status())
	w.intents[0].State = ledger.IntentRefused
	require.Equal(t, "dropped", status())
	require.Equal(t, "usdc-1", readJSON(t, send(t, s, "GET", receiptPath(id), ""))["id"])
	w.intents = nil
	require.Equal(t, "dropped", status(), "nobody sent it here")
}

func TestPayerGetsReceiptAddress(t *testing.T) {
	w := newWorld(t)
	account := w.offer.USDC()[0].Account()
	page := baseURL + receiptPath(intentID(qrKey, w.offer.ID, account, payer, nonce))
	w.outcome = x402.Outcome{Status: x402.Settled, Version: 2, Evidence: "seen", Response: &x402.SettleResponse{Success: true}, Intent: nonce, Account: account, Payer: strings.ToUpper(payer), ByPayer: true}
	s := w.server(t)
	pay := func() map[string]any {
		return readJSON(t, send(t, s, "POST", "/v1/sponsor", "", "PAYMENT-SIGNATURE", "e30="))
	}
	require.Equal(t, page, pay()["receiptUrl"], "in whatever letters the payer is written")
	w.outcome.Status = x402.Open
	require.Equal(t, page, pay()["receiptUrl"], "it tells what becomes of the payment")
	w.outcome.Status, w.outcome.Account = x402.Conflict, ""
	require.NotContains(t, pay(), "receiptUrl", "the other payment's page is not this attempt's")
	w.key, w.outcome.Status, w.outcome.Account = nil, x402.Settled, account
	require.Equal(t, baseURL+"/v1/received", pay()["receiptUrl"], "there is no key yet")
	w.outcome.Status = x402.Open
	require.NotContains(t, pay(), "receiptUrl")
}

// Everyone can rebuild a settled payment from the chain.
func TestReceiptAddressOnlyForPayer(t *testing.T) {
	w := newWorld(t)
	w.outcome = x402.Outcome{Status: x402.Settled, Version: 2, Evidence: "seen", Response: &x402.SettleResponse{Success: true},
		Intent: nonce, Account: w.offer.USDC()[0].Account(), Payer: payer}
	s := w.server(t)
	pay := func() map[string]any {
		return readJSON(t, send(t, s, "POST", "/v1/sponsor", "", "PAYMENT-SIGNATURE", "e30="))
	}
	for _, w.key = range [][]byte{qrKey, nil} {
		for _, w.outcome.Status = range []x402.Status{x402.Settled, x402.Open} {
			require.NotContains(t, pay(), "receiptUrl")
		}
	}
	w.outcome.Status = x402.Settled
	require.Equal(t, "The payment was accepted. Only the response to its first request has the address of its receipt. "+
		"If you lost that response, ask the seller.", pay()["description"])
}
