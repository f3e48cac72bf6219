package bench

import (
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

// demand is what a seller asks for in its 402.
type demand struct {
	request
	version    int
	resource   json.RawMessage
	accepted   json.RawMessage
	payTo      common.Address
	amount     int64
	identified bool // whether a payment has an identifier
}

// demanded asks a seller.
func demanded(t testing.TB, seller *side, r request) demand {
	t.Helper()
	a := seller.ask(t, r)
	require.Equal(t, http.StatusPaymentRequired, a.Status)
	data, err := base64.StdEncoding.DecodeString(a.Header.Get("Payment-Required"))
	require.NoError(t, err)
	var required struct {
		X402Version int
		Resource    json.RawMessage
		Accepts     []json.RawMessage
		Extensions  map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal(data, &required))
	d := demand{request: r, version: required.X402Version, resource: required.Resource, accepted: required.Accepts[0]}
	_, d.identified = required.Extensions["payment-identifier"]
	var terms struct{ PayTo, Amount string }
	require.NoError(t, json.Unmarshal(d.accepted, &terms))
	d.payTo = common.HexToAddress(terms.PayTo)
	d.amount, err = strconv.ParseInt(terms.Amount, 10, 64)
	require.NoError(t, err)
	return d
}

// signed is a request that pays what is demanded, as it goes to a host.
func (d demand) signed(t testing.TB, buyer *ecdsa.PrivateKey, host string) []byte {
	t.Helper()
	a := chain.NewAuthorization(t, chain.Address(buyer), d.payTo, d.amount)
	payload := map[string]any{
		"x402Version": d.version, "resource": d.resource, "accepted": d.accepted,
		"payload": map[string]any{"signature": a.Sign(t, buyer), "authorization": a},
	}
	if d.identified {
		payload["extensions"] = map[string]any{"payment-identifier": map[string]any{"info": map[string]any{"required": true, "id": "pay_" + rand.Text()}}}
	}
	data, err := json.Marshal(payload)
	require.NoError(t, err)
	paying := d.request
	paying.header = http.Header{"Payment-Signature": {base64.StdEncoding.EncodeToString(data)}}
	return paying.bytes(host)
}

// requirePaid is the error of an answer to a payment that is none.
func requirePaid(status int, err error) error {
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("the payment is answered %d", status)
	}
	return err
}

// crowds are how many buyers pay at once, each the next payment when the last is answered.
var crowds = []int{1, 64}

// seller is a side that is paid.
type seller struct {
	*side
	demand demand
	goal   func(buyers int) string
}

// paid is what a round of payments gave.
type paid struct {
	perSecond float64
	cost      float64 // microseconds of processor time for one
}

// measurePaid compares payments with those of the reference seller, which keeps no books. One facilitator serves all.
func measurePaid(b *testing.B, t *table) {
	f := startFacilitator(b, latency)
	sellers := []seller{
		{side: startOffer(b, "SQLite", "sqlite {DIR}/ledger.db", f.url, 1), goal: goalAt64("≥ 1.0")},
		{side: startOffer(b, "PostgreSQL", "postgres {env.LEDGER_DSN}", f.url, 1, "LEDGER_DSN="+postgres.Start(b).DSN(b)), goal: goalAt64("≥ 0.7")},
	}
	express := node.StartSeller(b, f.url, common.HexToAddress("0x52908400098527886E0F7030069857D2E4169EE7"))
	sellers = append(sellers, seller{side: newSide(b, "@x402/express", strings.TrimPrefix(express.URL, "http://"), express.Pid, 1)})
	for i := range sellers {
		asked := request{method: http.MethodPost, path: offer.PathSponsor}
		if i == len(sellers)-1 {
			asked = get("/report") // where a facilitator verifies and settles, as for ours
		}
		sellers[i].demand = demanded(b, sellers[i].side, asked)
	}
	reference := sellers[len(sellers)-1]
	for _, buyers := range crowds {
		rounds := payInTurns(b, f, buyers, sellers)
		for i, s := range sellers[:len(sellers)-1] {
			ours, theirs := rounds[i], rounds[len(sellers)-1]
			title := fmt.Sprintf("paid, %d at once, %s", buyers, s.name)
			t.add(title+": payments ÷ "+reference.name, ratio(column(ours, paid.rate), column(theirs, paid.rate)), s.goal(buyers),
				fmt.Sprintf("%s and %s a second", number(spreadOf(column(ours, paid.rate)).median), number(spreadOf(column(theirs, paid.rate)).median)))
			t.add(title+": processor time of "+reference.name+" ÷ ours", ratio(column(theirs, paid.processor), column(ours, paid.processor)), "",
				microseconds(column(ours, paid.processor), column(theirs, paid.processor)))
		}
	}
}

func goalAt64(goal string) func(int) string {
	return func(buyers int) string {
		if buyers == 64 {
			return goal
		}
		return ""
	}
}

func (p paid) rate() float64      { return p.perSecond }
func (p paid) processor() float64 { return p.cost }

// column is one number of all rounds.
func column(rounds []paid, of func(paid) float64) (numbers []float64) {
	for _, p := range rounds {
		numbers = append(numbers, of(p))
	}
	return numbers
}

// payInTurns lets a number of buyers pay each seller in turn, and returns what each gave, by round.
func payInTurns(b *testing.B, f *facilitator, buyers int, sellers []seller) [][]paid {
	byRound := make([][]paid, len(sellers))
	each := max(2, 512/buyers)
	if buyers < 4 {
		each = 64
	}
	takeTurns(len(sellers), func(i int) float64 {
		before := f.calls.Load()
		p := sellers[i].pay(b, buyers, each)
		b.Logf("%d at once, %s: %s a second, %s µs each, %.1f calls of the facilitator each", buyers, sellers[i].name,
			number(p.perSecond), number(p.cost), float64(f.calls.Load()-before)/float64(buyers*each))
		byRound[i] = append(byRound[i], p)
		return 0
	})
	for i := range byRound {
		byRound[i] = byRound[i][1:] // what is done once
	}
	return byRound
}

// pay lets new buyers pay one after the other as often as each says. What they send is signed before the clock starts.
func (s seller) pay(b *testing.B, buyers, each int) paid {
	sent := make([][][]byte, buyers)
	for i := range sent {
		key := chain.NewKey(b)
		for range each {
			sent[i] = append(sent[i], s.demand.signed(b, key, s.host))
		}
	}
	var paying sync.WaitGroup
	failed, lanes := make([]error, buyers), make([]*lane, buyers)
	for i := range lanes {
		lanes[i] = openLane(b, s.host) // a new one, for Node.js closes those that are idle
		defer lanes[i].conn.Close()
	}
	spent, began := processorTime(b, s.pid), time.Now()
	for i, payments := range sent {
		paying.Go(func() {
			for _, payment := range payments {
				if failed[i] = requirePaid(lanes[i].send(payment)); failed[i] != nil {
					return
				}
			}
		})
	}
	paying.Wait()
	took := time.Since(began)
	spent = processorTime(b, s.pid) - spent
	for _, err := range failed {
		require.NoError(b, err, s.name)
	}
	count := float64(buyers * each)
	return paid{count / took.Seconds(), float64(spent.Nanoseconds()) / 1000 / count}
}

// latency is how long the facilitator takes for each call.
const latency = 5 * time.Millisecond

// facilitator says yes to every payment after a time that is always the same. It has no chain: what it settles stays a claim.
type facilitator struct {
	url string
	// settled is how many payments there were, calls how many times it was asked to verify or to settle, and spent the
	// nanoseconds that it took for them.
	settled, calls, spent atomic.Int64
}

func startFacilitator(t testing.TB, latency time.Duration) *facilitator {
	t.Helper()
	f := new(facilitator)
	network := fmt.Sprintf("eip155:%d", chain.ID)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/supported" {
			fmt.Fprintf(w, `{"kinds":[{"x402Version":2,"scheme":"exact","network":%q}],"extensions":[],"signers":{}}`, network)
			return
		}
		began := time.Now()
		var asked struct {
			PaymentPayload struct {
				Payload struct{ Authorization struct{ From, Nonce string } }
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		time.Sleep(latency) // that is what it imitates
		a := asked.PaymentPayload.Payload.Authorization
		switch {
		case r.URL.Path == "/settle":
			fmt.Fprintf(w, `{"success":true,"payer":%q,"network":%q,"transaction":"0x%064x"}`, a.From, network, f.settled.Add(1))
		case strings.Trim(a.Nonce, "0x") == "": // a seller's question how the facilitator is
			fmt.Fprintf(w, `{"isValid":false,"payer":%q,"invalidReason":"invalid_exact_evm_insufficient_balance"}`, a.From)
			return
		default:
			fmt.Fprintf(w, `{"isValid":true,"payer":%q}`, a.From)
		}
		f.calls.Add(1)
		f.spent.Add(int64(time.Since(began)))
	}))
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}
