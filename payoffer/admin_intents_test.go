package payoffer

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

const (
	testPayer       = "0x1111111111111111111111111111111111111111"
	testTransaction = "0xABababababababababababababababababababababababababababababababab"
)

// openPayment puts an x402 payment of unknown outcome into the running ledger.
func openPayment(t *testing.T, nonce string, change func(*ledger.Intent)) ledger.Intent {
	t.Helper()
	svc := onChain()
	account := svc.Accounts()[1] // that of usdc
	cents := int64(4200)
	i := ledger.Intent{
		IntentKey: ledger.IntentKey{
			Network: "eip155:84532", Asset: svc.Offer.USDC()[0].Network.USDC, From: testPayer, Nonce: nonce,
		},
		Offer: account.Offer, Account: account.ID, Amount: 42_000_000, USDCents: &cents, Fingerprint: nonce, Version: 2,
		Payload: []byte(`{}`), Requirement: []byte(`{}`), Facilitator: "gone.example",
		ValidBefore: time.Now().Add(-time.Hour).Unix(), Reason: "timeout",
	}
	change(&i)
	require.NoError(t, svc.Operator.Ledger.InsertIntent(t.Context(), i))
	return i
}

func storedIntent(t *testing.T, key ledger.IntentKey) ledger.Intent {
	t.Helper()
	i, found, err := onChain().Operator.Ledger.Intent(t.Context(), key)
	require.NoError(t, err)
	require.True(t, found)
	return i
}

func unchanged(*ledger.Intent) {}

func TestAdminAPIListsOpenPayments(t *testing.T) {
	o := newOperated(t, books)
	openPayment(t, "0x01", unchanged)
	openPayment(t, "0x02", func(i *ledger.Intent) {
		i.From = "0x2222222222222222222222222222222222222222"
		i.ValidBefore = time.Now().Add(time.Hour).Unix()
	})
	type list struct {
		Intents []operator.Intent
		Next    *int64
	}
	var first, second list
	require.NoError(t, json.Unmarshal([]byte(o.ask(http.MethodGet, operator.PathIntents+"?limit=1", "").body), &first))
	require.Len(t, first.Intents, 1)
	row := first.Intents[0]
	require.Equal(t, testPayer, row.From)
	require.Contains(t, row.Waiting, "operator")
	require.NotNil(t, first.Next)
	require.NoError(t, json.Unmarshal([]byte(o.ask(http.MethodGet, operator.PathIntents+"?after=1", "").body), &second))
	require.Len(t, second.Intents, 1)
	require.Contains(t, second.Intents[0].Waiting, "can be settled until then")
	require.Nil(t, second.Next)
}

func TestTheOperatorResolvesWhatNothingElseDecides(t *testing.T) {
	o := newOperated(t, books)
	body := must(json.Marshal(operator.IntentOutcome{
		Network: "base-sepolia", From: testPayer, Nonce: "0x02", Outcome: "paid",
		Transaction: testTransaction, Reason: "looked up at the explorer",
	}))(t)
	paid := openPayment(t, "0x02", unchanged)
	got := o.ask(http.MethodPost, operator.PathIntents, string(body))
	require.Equal(t, http.StatusOK, got.status, got.body)
	stored := storedIntent(t, paid.IntentKey)
	require.Equal(t, ledger.IntentSettled, stored.State)
	require.Equal(t, ledger.EvidenceFacilitator, stored.Evidence, "a claim, counted in no sum")
	require.Equal(t, strings.ToLower(testTransaction), stored.Transaction)
	require.Contains(t, o.ask(http.MethodGet, operator.PathReceived, "").body, `"receivedUsd":0`)
	require.Contains(t, o.log(), "looked up at the explorer")
}

func TestAdminAPIRefusesResolutionsWithASentence(t *testing.T) {
	o := newOperated(t, secondBooks+books)
	valid := openPayment(t, "0x01", func(i *ledger.Intent) { i.ValidBefore = time.Now().Unix() })
	const unpaid = `{"network":"base-sepolia","from":"` + testPayer + `","nonce":"0x01","outcome":"not_paid","reason":"x"}`
	for name, c := range map[string]struct {
		body   string
		status int
		want   string
	}{
		"while it can be settled": {unpaid, 409, "can be settled until then"},
		"of an unknown payment":   {strings.Replace(unpaid, "0x01", "0x09", 1), 404, "no payment of a running offer"},
		"with an unknown member":  {strings.Replace(unpaid, "reason", "raeson", 1), 400, "raeson"},
	} {
		t.Run(name, func(t *testing.T) {
			got := o.ask(http.MethodPost, operator.PathIntents, c.body)
			require.Equal(t, c.status, got.status, got.body)
			require.Contains(t, got.body, c.want)
		})
	}
	require.Equal(t, ledger.IntentSettling, storedIntent(t, valid.IntentKey).State)
}
