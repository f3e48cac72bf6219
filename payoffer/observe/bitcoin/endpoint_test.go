package bitcoin

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// answer is a fault that answers every path that holds part so.
func answer(part string, status int, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, part) {
			return false
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
}

// Whatever one endpoint of a host does, the other one is asked, and nothing of
// the first one's responses is believed.
func TestAnEndpointThatFailsIsReplacedByAnother(t *testing.T) {
	t.Parallel()
	id, block := hashOf("p"), hashOf("b")
	tx := func(status, value, script string) string {
		return `[{"txid":"` + id + `","vin":[{"txid":"` + block + `","vout":0}],"vout":[{"scriptpubkey":"` + script + `","value":` + value + `}],"status":` + status + `}]`
	}
	ours, confirmed := scriptOf(single), `{"confirmed":true,"block_height":100,"block_hash":"`+block+`","block_time":1}`
	for name, wrong := range map[string]struct {
		fault func(http.ResponseWriter, *http.Request) bool
		code  string
	}{
		"refuses":                     {answer("", 429, ""), observe.ErrLimited},
		"wants a key":                 {answer("", 401, ""), observe.ErrUnauthorized},
		"is broken":                   {answer("", 502, "<html>"), observe.ErrUnreachable},
		"knows nothing":               {answer("", 404, ""), observe.ErrBadAnswer},
		"sends elsewhere":             {answer("", 302, ""), observe.ErrBadAnswer},
		"serves another network":      {answer("/block-height/0", 200, strings.Repeat("0", 64)), observe.ErrWrongChain},
		"a web page":                  {answer("/blocks/tip/height", 200, "<html>100</html>"), observe.ErrBadAnswer},
		"a negative height":           {answer("/blocks/tip/height", 200, "-1"), observe.ErrBadAnswer},
		"a height beyond every chain": {answer("/blocks/tip/height", 200, "9999999999"), observe.ErrBadAnswer},
		"an endless height":           {answer("/blocks/tip/height", 200, strings.Repeat("1", maxText+9)), observe.ErrBadAnswer},
		"an upper-case hash":          {answer("/block-height/101", 200, strings.Repeat("A", 64)), observe.ErrBadAnswer},
		"another block":               {answer("/block/", 200, `{"id":"`+id+`","timestamp":1}`), observe.ErrBadAnswer},
		"truncated":                   {answer("/txs/chain", 200, tx(confirmed, "10", ours)[:150]), observe.ErrBadAnswer},
		"a list that is not closed":   {answer("/txs/chain", 200, strings.TrimSuffix(tx(confirmed, "10", ours), "]")), observe.ErrBadAnswer},
		"something after the list":    {answer("/txs/chain", 200, tx(confirmed, "10", ours)+"[]"), observe.ErrBadAnswer},
		"an object for a list":        {answer("/txs/chain", 200, `{}`), observe.ErrBadAnswer},
		"a negative value":            {answer("/txs/chain", 200, tx(confirmed, "-1", ours)), observe.ErrBadAnswer},
		"more than all bitcoin":       {answer("/txs/chain", 200, tx(confirmed, "2100000000000001", ours)), observe.ErrBadAnswer},
		"a script that is no hex":     {answer("/txs/chain", 200, tx(confirmed, "1", "zz")), observe.ErrBadAnswer},
		"unconfirmed in the chain":    {answer("/txs/chain", 200, tx(`{"confirmed":false}`, "1", ours)), observe.ErrBadAnswer},
		"a block off the chain": {func(w http.ResponseWriter, r *http.Request) bool {
			return answer("/txs/chain/", 200, "[]")(w, r) || answer("/txs/chain", 200, tx(confirmed, "1", ours))(w, r)
		}, observe.ErrBadAnswer},
		"hangs up": {func(w http.ResponseWriter, _ *http.Request) bool {
			panic(http.ErrAbortHandler)
		}, observe.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, single)
			sick, well := newFakeIndex(t, 100), newFakeIndex(t, 100)
			b.round(b.observer(well))
			for _, chain := range []*fakeIndex{sick, well} {
				chain.bury(1, pay("real", single, 1000))
			}
			sick.setFault(wrong.fault)
			o := b.observer(sick, well)
			b.round(o)
			require.Equal(t, ledger.StatusConfirmed, b.row("real").Status)
			require.Equal(t, int64(1000), b.row("real").Amount)

			alone := b.observer(sick)
			err := alone.Poll(t.Context())
			require.EqualError(t, err, wrong.code+" (127.0.0.1)")
			require.True(t, alone.Health().Blind)
			require.Equal(t, wrong.code, alone.Health().LastError)
			require.Equal(t, ledger.StatusConfirmed, b.row("real").Status)

			sick.setFault(nil)
			b.clock.advance(maxPause)
			b.round(alone)
			require.Empty(t, alone.Health().LastError)
		})
	}
}

func TestAnEndpointThatFailsIsLeftAlone(t *testing.T) {
	t.Parallel()
	b, sick, well := newBench(t, single), newFakeIndex(t, 100), newFakeIndex(t, 100)
	o := b.observer(sick, well)
	sick.setFault(answer("", 503, ""))
	b.round(o)
	require.Len(t, sick.called(), 1)
	rounds, asked := 40, 0
	for range rounds {
		b.round(o)
		asked += len(sick.called())
	}
	require.Greater(t, asked, 1, "it may be well again")
	require.Less(t, asked, 10, "longer pauses each time")

	sick.setFault(nil)
	b.clock.advance(maxPause)
	b.round(o)
	sick.called()
	b.round(o)
	require.NotEmpty(t, sick.called(), "it is asked in each round again")
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAnErrorNamesNoMoreThanTheHost(t *testing.T) {
	t.Parallel()
	b := newBench(t, single)
	o, err := New(Config{
		OfferID: testOffer, Rail: b.rail, Endpoints: []string{"https://e.example/secret-path?key=secret"}, Confirmations: 1,
		Ledger: b.db, Now: b.clock.Now, Rate: b.observer(newFakeIndex(t, 1)).config.Rate, Logger: slog.New(slog.DiscardHandler),
		Transport: transport(func(r *http.Request) (*http.Response, error) {
			require.Equal(t, "https://e.example/secret-path/block-height/0?key=secret", r.URL.String())
			return nil, errors.New("dial secret: " + r.URL.String())
		}),
	})
	require.NoError(t, err)
	require.EqualError(t, o.Poll(t.Context()), "unreachable (e.example)")
}

func TestAnEndpointThatIsBehindChangesNothing(t *testing.T) {
	t.Parallel()
	b, fast, slow := newBench(t, single), newFakeIndex(t, 100), newFakeIndex(t, 100)
	tx := pay("p", single, 1000)
	b.round(b.observer(fast))
	fast.mine(tx)
	fast.mine()
	b.round(b.observer(fast))
	slow.setPool(tx)
	o := b.observer(slow)
	require.EqualError(t, o.Poll(t.Context()), "lagging (127.0.0.1)")
	b.requireState("p", ledger.StatusConfirmed)
	slow.mine(tx)
	slow.mine()
	b.round(o)
}

func TestALedgerThatIsGoneLosesNothing(t *testing.T) {
	b, chain, o := observedBeside(t, single)
	chain.bury(1, pay("p", single, 1000))
	require.NoError(t, b.db.Close())
	require.EqualError(t, o.Poll(t.Context()), "ledger_unavailable (ledger)")
	require.Equal(t, observe.ErrLedger, o.Health().LastError)
	require.NoError(t, b.db.Open(t.Context()))
	b.becomes(o, "p", ledger.StatusConfirmed)
}

func TestRunEndsWithItsContextDuringACycle(t *testing.T) {
	t.Parallel()
	b, chain := newBench(t, single), newFakeIndex(t, 100)
	o := b.observer(chain)
	ctx, cancel := context.WithCancel(t.Context())
	chain.setFault(func(http.ResponseWriter, *http.Request) bool {
		cancel()
		return false
	})
	o.Run(ctx)
	require.Empty(t, o.Health().LastError, "a stop is no failure of the index")
}
