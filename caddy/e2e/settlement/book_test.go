package settlement

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// errRefused is what a ledger answers that refuses to write.
var errRefused = errors.New("the disk is full")

// book is a ledger at whose calls a test may interfere.
type book struct {
	*ledger.Ledger
	mu            sync.Mutex
	before, after map[string]func() error
}

// openBook opens a ledger of its own for the test.
func openBook(t *testing.T, now func() time.Time) *book {
	t.Helper()
	b := &book{
		Ledger: ledger.NewSQLite(payoffertest.LedgerFile(t), now),
		before: map[string]func() error{}, after: map[string]func() error{},
	}
	require.NoError(t, b.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// on has f run before every call of a method, which fails with f's error and does nothing then. nil ends it.
func (b *book) on(method string, f func() error) { b.set(b.before, method, f) }

// onDone has f run after every call of a method, which succeeds in the ledger and fails for its caller with f's error.
func (b *book) onDone(method string, f func() error) { b.set(b.after, method, f) }

func (b *book) set(hooks map[string]func() error, method string, f func() error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	hooks[method] = f
}

func (b *book) call(hooks map[string]func() error, method string) error {
	b.mu.Lock()
	f := hooks[method]
	b.mu.Unlock()
	if f == nil {
		return nil
	}
	return f()
}

// around runs a call between its hooks.
func (b *book) around(method string, call func() error) error {
	if err := b.call(b.before, method); err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	return b.call(b.after, method)
}

func (b *book) LookUp(ctx context.Context, i ledger.Intent) (look ledger.Lookup, err error) {
	err = b.around("Look", func() (err error) { look, err = b.Ledger.LookUp(ctx, i); return err })
	return look, err
}

func (b *book) InsertIntent(ctx context.Context, i ledger.Intent) error {
	return b.around("InsertIntent", func() error { return b.Ledger.InsertIntent(ctx, i) })
}

func (b *book) SettleIntent(ctx context.Context, key ledger.IntentKey, transaction string, answer []byte, evidence string) error {
	return b.around("SettleIntent", func() error { return b.Ledger.SettleIntent(ctx, key, transaction, answer, evidence) })
}

func (b *book) WithdrawIntent(ctx context.Context, key ledger.IntentKey, owner string) error {
	return b.around("WithdrawIntent", func() error { return b.Ledger.WithdrawIntent(ctx, key, owner) })
}

func (b *book) Record(ctx context.Context, cursor *ledger.Cursor, observations ...ledger.Observation) (rows []ledger.Receipt, err error) {
	err = b.around("Record", func() (err error) { rows, err = b.Ledger.Record(ctx, cursor, observations...); return err })
	return rows, err
}

// requireUnknown requires that the ledger has no row of a payment.
func (b *book) requireUnknown(t *testing.T, p payment) {
	t.Helper()
	_, known, err := b.Ledger.Intent(t.Context(), p.key())
	require.NoError(t, err)
	require.False(t, known, "the ledger holds a payment that was not sent")
}

// requireIntent requires that the ledger knows a payment in a state.
func (b *book) requireIntent(t *testing.T, p payment, state ledger.IntentState) ledger.Intent {
	t.Helper()
	i, known, err := b.Ledger.Intent(t.Context(), p.key())
	require.NoError(t, err)
	require.True(t, known)
	require.Equal(t, state, i.State, "%+v", i)
	return i
}

// requireReceipts requires that the receipts on a chain are its transfers, and that the sums are theirs.
func (b *book) requireReceipts(t *testing.T, c *chain.Chain, transfers []chain.Transfer) {
	t.Helper()
	rows := lab.Must(b.Receipts(t.Context(), offerID, 0, 100))(t)
	var want, got []string
	for _, transfer := range transfers {
		want = append(want, fmt.Sprintf("eip155:%d:%s:%d", c.ID, transfer.Tx.Hex(), transfer.Ordinal))
	}
	accounts := map[string]bool{}
	prefix := fmt.Sprintf("eip155:%d:", c.ID)
	for _, row := range rows {
		if row.Status == ledger.StatusDropped || len(row.ExternalID) < len(prefix) || row.ExternalID[:len(prefix)] != prefix {
			continue
		}
		require.Equal(t, ledger.StatusConfirmed, row.Status)
		require.EqualValues(t, price, row.Amount)
		accounts[row.Account] = true
		got = append(got, row.ExternalID)
	}
	require.ElementsMatch(t, want, got, "the receipts are the transfers on the chain")

	totals := lab.Must(b.Totals(t.Context(), offerID))(t)
	var count, amount int64
	for _, total := range totals {
		if accounts[total.Account] && total.Status == ledger.StatusConfirmed {
			count, amount = count+total.Count, amount+total.Amount
		}
	}
	require.EqualValues(t, len(transfers), count, "the number in the sums")
	require.EqualValues(t, len(transfers)*price, amount, "the money in the sums")
}

// requireOpenIntents requires that so many payments are open, and that the sums say the same.
func (b *book) requireOpenIntents(t *testing.T, count int) {
	t.Helper()
	open := lab.Must(b.OpenIntents(t.Context(), offerID, 0, 100))(t)
	require.Len(t, open, count)
	totals := lab.Must(b.Totals(t.Context(), offerID))(t)
	var settling int64
	for _, total := range totals {
		if total.Status == ledger.StatusSettling {
			settling += total.Count
		}
	}
	require.EqualValues(t, count, settling, "the open payments in the sums")
}

var _ x402.Ledger = (*book)(nil)

// shortTimeout is that of a facilitator that does not answer.
const shortTimeout = time.Second

// longTimeout is that of one that answers.
const longTimeout = 10 * time.Second

type reply = payoffertest.FacilitatorReply

func TestAPaymentIsSettledOnceAndAnsweredForEver(t *testing.T) {
	t.Parallel()
	s := openShop(t, longTimeout)
	p := s.payment(s.chain.Buyers[0])

	outcome := s.pay(p)
	require.Equal(t, x402.Settled, outcome.Status, "%+v", outcome)
	require.Equal(t, "seen", outcome.Evidence)
	transaction := s.awaitTransfers(1)[0].Tx
	s.requirePaid(p, transaction)
	s.requireAgreement(1, 0)

	// An hour later, past its validBefore, after a change of the price and of the address.
	s.clock.pass(time.Hour)
	require.Less(t, p.ValidBefore, s.clock.Now().Unix())
	s.service, _ = s.serve(2*cents, newAddress(t), s.chain.URL)
	s.requirePaid(p, transaction)
	require.Len(t, s.facilitator.Calls(payoffertest.CallVerify), 1)
	require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 1)
	s.requireAgreement(1, 0)
}

// Where a facilitator's answer to settle says nothing certain and nothing was broadcast, the buyer is told to wait; the
// identical payload is sent again as soon as the chain was asked, and settled once.
func TestAnUncertainAnswerWithoutABroadcastIsRepeated(t *testing.T) {
	t.Parallel()
	for name, broken := range uncertain {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, shortTimeout)
			p := s.payment(s.chain.Buyers[0])
			broken.Idle = true
			s.facilitator.Script(payoffertest.CallSettle, broken)

			s.requireOpen(p)
			s.requireOpen(p)
			s.requireAgreement(0, 1)
			s.requireBlocked(p)
			require.LessOrEqual(t, len(s.facilitator.Calls(payoffertest.CallSettle)), 2)

			s.facilitator.Script(payoffertest.CallSettle, reply{})
			s.resolve(soon)
			s.requirePaid(p, s.awaitTransfers(1)[0].Tx)
			s.requireAgreement(1, 0)
		})
	}
}

// The same, but the facilitator never does its work: the definite no comes with the finalized end of the authorization,
// and frees the payer.
func TestAnUncertainAnswerBecomesANoOnlyByTheFinalizedChain(t *testing.T) {
	t.Parallel()
	for name, broken := range uncertain {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, shortTimeout)
			p := s.payment(s.chain.Buyers[0])
			broken.Idle = true
			s.facilitator.Script(payoffertest.CallSettle, broken)
			s.requireOpen(p)
			s.resolve(soon)
			s.requireOpen(p)

			// Past the end of its validity, but in no finalized block.
			s.expire()
			s.resolve(late)
			s.requireOpen(p)
			s.requireAgreement(0, 1)

			s.chain.Finalize(t)
			s.resolve(late)
			s.requireDead(p, "authorization_expired")
			s.requireAgreement(0, 0)
			s.book.requireIntent(t, p, ledger.IntentRefused)
		})
	}
}

// Where the facilitator did broadcast, the buyer gets the 200 of the transaction that happened, without a second one.
func TestAnUncertainAnswerAfterABroadcastIsFoundOnTheChain(t *testing.T) {
	t.Parallel()
	acted := map[string]reply{
		"close after the broadcast":          {Fault: payoffertest.FaultCloseActed},
		"no answer in time":                  {Fault: payoffertest.FaultHangActed},
		"success after the client's timeout": {Fault: payoffertest.FaultLate},
		"success without a transaction":      {NoTransaction: true},
		"success on another network":         {Network: "eip155:1"},
	}
	for name, broken := range uncertain {
		if broken.Fault == 0 && broken.Reason == "" {
			acted[name] = broken
		}
	}
	for name, broken := range acted {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, shortTimeout)
			p := s.payment(s.chain.Buyers[0])
			s.facilitator.Script(payoffertest.CallSettle, broken)

			s.requireOpen(p)
			transaction := s.awaitTransfers(1)[0].Tx
			s.requireBlocked(p)
			s.resolve(soon)
			s.requirePaid(p, transaction)
			s.requireAgreement(1, 0)
			require.Len(t, s.facilitator.Calls(payoffertest.CallSettle), 1, "the chain was asked before the facilitator")
		})
	}
}

// uncertain are the answers to settle after which nobody knows what happened.
var uncertain = map[string]reply{
	"500":                     {Status: http.StatusInternalServerError, Body: "boom"},
	"502 with a success":      {Status: http.StatusBadGateway},
	"401":                     {Status: http.StatusUnauthorized, Body: "{}"},
	"403 with a success":      {Status: http.StatusForbidden},
	"404":                     {Status: http.StatusNotFound, Body: "no such path"},
	"202 with a success":      {Status: http.StatusAccepted},
	"202 with a paymentId":    {Status: http.StatusAccepted, Body: `{"paymentId":"p-1"}`},
	"429":                     {Status: http.StatusTooManyRequests, Body: "{}"},
	"a redirect":              {Status: http.StatusTemporaryRedirect, Location: "http://127.0.0.1:9/", Body: "{}"},
	"close after reading":     {Fault: payoffertest.FaultCloseRead},
	"hang":                    {Fault: payoffertest.FaultHang},
	"an empty body":           {Body: " "},
	"broken JSON":             {Body: `{"success":true,"transaction":"0x`},
	"no JSON":                 {Body: "<html>It works!</html>"},
	"an empty object":         {Body: "{}"},
	"success of a wrong type": {Body: `{"success":"true","transaction":"0x01","network":"eip155:84532"}`},
	"transaction of a wrong type": {
		Body: `{"success":true,"transaction":7,"network":"eip155:84532"}`,
	},
	"transaction of a wrong form": {Transaction: "0x1234"},
	"no after verify's yes":       {Reason: "invalid_exact_evm_transaction_failed"},
	"nonce used":                  {Reason: "invalid_exact_evm_nonce_already_used"},
	"settlement_pending":          {Reason: "settlement_pending"},
}

// requireBlocked requires that another payment of the same payer is not sent while one is open.
func (s *shop) requireBlocked(p payment) {
	s.Helper()
	before := len(s.facilitator.Calls(payoffertest.CallSettle))
	other := s.payment(s.chain.Buyers[0])
	require.Equal(s, p.From, other.From)
	outcome := s.pay(other)
	require.Equal(s, x402.Conflict, outcome.Status, "%+v", outcome)
	require.Equal(s, p.Nonce.Hex(), outcome.Intent, "it names the payment that is open")
	require.Len(s, s.facilitator.Calls(payoffertest.CallSettle), before)
	s.book.requireUnknown(s.T, other)
}
