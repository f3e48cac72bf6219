package payoffer

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	testPayer       = "0x1111111111111111111111111111111111111111"
	testTransaction = "0xABababababababababababababababababababababababababababababababab"
)

// openPayment puts an x402 payment of unknown outcome into the running ledger.
func openPayment(t *testing.T, nonce string, change func(*ledger.Intent)) ledger.Intent {
	t.Helper()
	svc := running.newest().offers()[0]
	account, _ := svc.accountOf("usdc")
	cents := int64(4200)
	i := ledger.Intent{
		IntentKey: ledger.IntentKey{
			Network: "eip155:84532", Asset: svc.offer.USDC()[0].Network.USDC, From: testPayer, Nonce: nonce,
		},
		Offer: account.Offer, Account: account.ID, Amount: 42_000_000, USDCents: &cents, Fingerprint: nonce, Version: 2,
		Payload: []byte(`{}`), Requirement: []byte(`{}`), Facilitator: "gone.example",
		ValidBefore: time.Now().Add(-time.Hour).Unix(), Reason: "timeout",
	}
	change(&i)
	require.NoError(t, svc.ledger.InsertIntent(t.Context(), i))
	return i
}

func storedIntent(t *testing.T, key ledger.IntentKey) ledger.Intent {
	t.Helper()
	i, found, err := running.newest().offers()[0].ledger.Intent(t.Context(), key)
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
		Intents []intentRow
		Next    *int64
	}
	var first, second list
	require.NoError(t, json.Unmarshal([]byte(o.ask(http.MethodGet, adminIntents+"?limit=1", "").body), &first))
	require.Len(t, first.Intents, 1)
	row := first.Intents[0]
	require.Equal(t, testPayer, row.From)
	require.Equal(t, "0x01", row.Nonce)
	require.Equal(t, "settling", row.State)
	require.Equal(t, "timeout", row.Reason)
	require.Equal(t, "gone.example", row.Facilitator)
	require.Equal(t, "42", row.AmountUSD.String())
	require.Contains(t, row.Waiting, "operator")
	require.NotNil(t, first.Next)
	require.NoError(t, json.Unmarshal([]byte(o.ask(http.MethodGet, adminIntents+"?after=1", "").body), &second))
	require.Len(t, second.Intents, 1)
	require.Contains(t, second.Intents[0].Waiting, "can be settled till then")
	require.Nil(t, second.Next)
}

func TestTheOperatorResolvesWhatNothingElseDecides(t *testing.T) {
	o := newOperated(t, books)
	resolution := func(nonce, outcome, transaction string) answer {
		body, err := json.Marshal(intentOutcome{
			Network: "base-sepolia", From: strings.ToUpper(testPayer[2:]), Nonce: nonce, Outcome: outcome,
			Transaction: transaction, Reason: "looked up at the explorer",
		})
		require.NoError(t, err)
		return o.ask(http.MethodPost, adminIntents, strings.Replace(string(body), `"from":"`, `"from":"0x`, 1))
	}
	unpaid := openPayment(t, "0x01", unchanged)
	got := resolution("0x01", "not_paid", "")
	require.Equal(t, http.StatusOK, got.status, got.body)
	stored := storedIntent(t, unpaid.IntentKey)
	require.Equal(t, ledger.IntentRefused, stored.State)
	require.Equal(t, "operator_not_paid", stored.Reason, "the payer reads a code and not the operator's words")
	require.Equal(t, http.StatusConflict, resolution("0x01", "paid", testTransaction).status, "what is decided stays")

	paid := openPayment(t, "0x02", unchanged)
	got = resolution("0x02", "paid", testTransaction)
	require.Equal(t, http.StatusOK, got.status, got.body)
	stored = storedIntent(t, paid.IntentKey)
	require.Equal(t, ledger.IntentSettled, stored.State)
	require.Equal(t, ledger.EvidenceFacilitator, stored.Evidence, "a claim, counted in no sum")
	require.Equal(t, strings.ToLower(testTransaction), stored.Transaction)
	require.Contains(t, o.ask(http.MethodGet, adminReceived, "").body, `"receivedUsd":0`)
	require.Contains(t, o.log(), "looked up at the explorer")
}

func TestResolutionsThatWouldGuessAreRefused(t *testing.T) {
	o := newOperated(t, books)
	valid := openPayment(t, "0x01", func(i *ledger.Intent) { i.ValidBefore = time.Now().Unix() })
	leased := openPayment(t, "0x02", func(i *ledger.Intent) {
		i.From, i.Owner, i.LeaseUntil = "0x22", "another", time.Now().Add(time.Hour).Unix()
	})
	const unpaid = `{"network":"base-sepolia","from":"` + testPayer + `","nonce":"0x01","outcome":"not_paid","reason":"x"}`
	for name, c := range map[string]struct {
		body   string
		status int
		want   string
	}{
		"while it can be settled": {unpaid, 409, "can be settled till then"},
		"while it is tried":       {strings.NewReplacer("0x01", "0x02", testPayer, "0x22").Replace(unpaid), 409, "under way"},
		"of an unknown payment":   {strings.Replace(unpaid, "0x01", "0x09", 1), 404, "no payment"},
		"of an unknown network":   {strings.Replace(unpaid, "base-sepolia", "moon", 1), 400, "unknown network"},
		"without a nonce":         {strings.Replace(unpaid, "0x01", "", 1), 400, "from and nonce"},
		"without a reason":        {strings.Replace(unpaid, `"reason":"x"`, `"reason":""`, 1), 400, "reason is missing"},
		"without an outcome":      {strings.Replace(unpaid, "not_paid", "perhaps", 1), 400, "paid or not_paid"},
		"paid by nothing":         {strings.Replace(unpaid, "not_paid", "paid", 1), 400, "64 hexadecimal digits"},
		"unpaid by a transaction": {strings.Replace(unpaid, `"reason"`, `"transaction":"0x1","reason"`, 1), 400, "leave it out"},
	} {
		t.Run(name, func(t *testing.T) {
			got := o.ask(http.MethodPost, adminIntents, c.body)
			require.Equal(t, c.status, got.status, got.body)
			require.Contains(t, got.body, c.want)
		})
	}
	require.Equal(t, ledger.IntentSettling, storedIntent(t, valid.IntentKey).State)
	require.Equal(t, ledger.IntentSettling, storedIntent(t, leased.IntentKey).State)
}

// knownHealth are payments whose rails are observed as is said.
type knownHealth struct {
	payments
	health observe.Health
}

func (k knownHealth) Health() []observe.Health { return []observe.Health{k.health} }

func TestAChainThatIsReadDecidesByItself(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	svc := *running.newest().offers()[0]
	now := time.Now()
	open := ledger.Intent{IntentKey: ledger.IntentKey{Network: "eip155:84532"}, ValidBefore: now.Add(-time.Hour).Unix()}
	for name, c := range map[string]struct {
		health observe.Health
		waits  bool
	}{
		"read":            {observe.Health{Rail: "usdc", Source: "chain"}, true},
		"read and behind": {observe.Health{Rail: "usdc", Source: "chain", Partial: true, LastError: observe.ErrLagging}, true},
		"not read yet":    {observe.Health{Rail: "usdc", Source: "chain", Blind: true}, true},
		"unreachable":     {observe.Health{Rail: "usdc", Source: "chain", Blind: true, LastError: observe.ErrUnreachable}, false},
		"not configured":  {observe.Health{Rail: "usdc", Source: "facilitator", Blind: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			svc.payments = knownHealth{svc.payments, c.health}
			for _, paid := range []bool{true, false} {
				require.Equal(t, c.waits, svc.decides(open, paid, now) != "")
			}
		})
	}
	removed := open
	removed.Network = "eip155:8453"
	require.Contains(t, svc.decides(removed, false, now), "put a usdc rail on eip155:8453 into the configuration")
}
