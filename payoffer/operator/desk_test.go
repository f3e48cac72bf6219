package operator

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

func TestTheBooksAreKeptByEntries(t *testing.T) {
	o := newOffice(t)
	enter := func(action string, amount json.Number, reason string) Receipt {
		t.Helper()
		row, err := o.Enter(t.Context(), ReceiptEntry{Action: action, Rail: "transfer", Reference: "INV-7", Amount: amount, Reason: reason})
		require.NoError(t, err)
		return row
	}
	row, err := o.Enter(t.Context(), ReceiptEntry{
		Action: "enter", Rail: "transfer", Reference: "INV-7", Amount: "42.50", Date: "2026-11-20", Reason: "statement",
	})
	require.NoError(t, err)
	require.Equal(t, "confirmed", row.Status)
	require.Equal(t, "manual", row.Evidence)
	require.Equal(t, int64(4250), row.Amount)
	require.Equal(t, "42.50", row.AmountUSD.String())
	require.Equal(t, "face", row.ValueBasis)
	require.Equal(t, "2026-11-20T00:00:00Z", row.OccurredAt)
	require.Equal(t, "operator/pay.example/transfer", row.Account)
	require.Equal(t, int64(1), enter("correct", "40", "the bank kept a fee").Revision)
	require.Equal(t, "reversed", enter("reverse", "", "recalled").Status)
	require.Equal(t, int64(4), enter("restore", "", "the recall was refused").Version)

	page, err := o.Receipts(t.Context(), 0, MaxPage)
	require.NoError(t, err)
	require.Nil(t, page.Next)
	require.Len(t, page.Receipts, 1)
	var happened []string
	for _, change := range page.Receipts[0].History {
		happened = append(happened, change.Status+" "+strconv.FormatInt(change.Amount, 10)+" "+change.Cause+": "+change.Reason)
	}
	require.Equal(t, []string{
		"confirmed 4250 entered: statement", "confirmed 4000 corrected: the bank kept a fee",
		"reversed 4000 reversed_by_operator: recalled", "confirmed 4000 restored_by_operator: the recall was refused",
	}, happened)
}

func TestEntriesOfACrookedFormAreRefused(t *testing.T) {
	o := newOffice(t)
	for name, c := range map[string]struct {
		entry ReceiptEntry
		kind  Kind
		want  string
	}{
		"no action":           {ReceiptEntry{Rail: "transfer", Reference: "INV-8", Amount: "42"}, Invalid, "enter, correct, reverse, restore, refund, value or redact"},
		"a reversal's amount": {ReceiptEntry{Action: "reverse", Rail: "transfer", Reference: "INV-8", Amount: "42", Reason: "x"}, Invalid, "takes no amount; leave it out"},
		"a crooked amount":    {ReceiptEntry{Action: "enter", Rail: "transfer", Reference: "INV-8", Amount: "4.2e1"}, Invalid, "42.50"},
		"a crooked date":      {ReceiptEntry{Action: "enter", Rail: "transfer", Reference: "INV-8", Amount: "42", Date: "20.11."}, Invalid, "2026-11-20"},
		"unknown rail":        {ReceiptEntry{Action: "enter", Rail: "cash", Reference: "INV-8", Amount: "42"}, Unknown, "there are: card, usdc, transfer"},
		"a chain":             {ReceiptEntry{Action: "enter", Rail: "usdc", Reference: "INV-8", Amount: "42"}, Conflict, "read from its chain"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := o.Enter(t.Context(), c.entry)
			requireRefusal(t, err, c.kind, c.want)
		})
	}
	require.Empty(t, o.history())
}

func TestReceiptsAreListedPageByPage(t *testing.T) {
	o := newOffice(t)
	for n := range 5 {
		_, err := o.Enter(t.Context(), ReceiptEntry{Action: "enter", Rail: "transfer", Reference: "INV-" + strconv.Itoa(n), Amount: "42"})
		require.NoError(t, err)
	}
	var seen []string
	for before := int64(0); ; {
		page, err := o.Receipts(t.Context(), before, 2)
		require.NoError(t, err)
		for _, r := range page.Receipts {
			seen = append(seen, r.Reference)
			require.Len(t, r.History, 1)
		}
		if page.Next == nil {
			break
		}
		before = *page.Next
	}
	require.Equal(t, []string{"INV-4", "INV-3", "INV-2", "INV-1", "INV-0"}, seen)
}

func TestALedgerThatCannotBeUsedIsNoRefusal(t *testing.T) {
	o := newOffice(t)
	require.NoError(t, o.book.Close())
	entry := ReceiptEntry{Action: "enter", Rail: "transfer", Reference: "INV-7", Amount: "42"}
	_, entered := o.Enter(t.Context(), entry)
	entry.Action, entry.Amount, entry.Reason = "reverse", "", "x"
	_, reversed := o.Enter(t.Context(), entry)
	_, received := o.Received(t.Context())
	_, receipts := o.Receipts(t.Context(), 0, 1)
	_, intents := o.Intents(t.Context(), 0, 1)
	_, resolved := o.Resolve(t.Context(), IntentOutcome{Network: "base", From: "0x1", Nonce: "0x2", Outcome: "not_paid", Reason: "x"})
	for _, err := range []error{entered, reversed, received, receipts, intents, resolved} {
		requireRefusal(t, err, Unavailable, "the ledger cannot be used now; the log says why")
		require.ErrorIs(t, err, ledger.ErrNotOpen)
	}
	for _, err := range []error{entered, reversed} {
		requireRefusal(t, err, Unavailable, "Whether this was stored is not known")
	}
}

func TestAKeyIsRotatedOrStaysAsItWas(t *testing.T) {
	o := newOffice(t)
	from := time.Unix(o.unix+600, 0)
	var lost error
	o.Rotate = func(_ context.Context, revoke bool) (string, time.Time, error) {
		require.True(t, revoke)
		return "did:web:pay.example#key", from, lost
	}
	key, err := o.RotateKey(t.Context(), true)
	require.NoError(t, err)
	require.Equal(t, RotatedKey{testOffer, "did:web:pay.example#key", "2026-11-21T12:10:00Z", true}, key)
	require.Contains(t, o.log.String(), "the operator rotated the signing key")

	lost = errors.New("no route to the storage")
	_, err = o.RotateKey(t.Context(), true)
	requireRefusal(t, err, Unavailable, "the keys stay as they are")
	require.ErrorIs(t, err, lost)
}
