package service

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/evm"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// A reload knows from its first answer on what the configuration before knew, for the rails with the same settings.
func TestReloadKeepsWhatWasKnown(t *testing.T) {
	h := newHouse(t)
	first := h.runtime(h.log)
	defer h.release(first)
	former := h.acquire(first, "one")
	h.open(first, former)
	former.addresses = knownAddress{former.addresses, "bc1q3qxu2dmlrw6sdls82tl369t02yu543z6qlp7lj"}
	require.Error(t, former.observers["usdc"].(*evm.Observer).Poll(t.Context()))
	known := former.Health()
	require.NotEmpty(t, health(t, former, "usdc").LastError)

	second := h.runtime(h.log)
	defer h.release(second)
	svc := h.acquire(second, "another description")
	require.Equal(t, known, svc.Health())
	require.Equal(t, "bc1q3qxu2dmlrw6sdls82tl369t02yu543z6qlp7lj", svc.live().Address)
	require.True(t, svc.waitStarted(t.Context()))
	require.Same(t, former.Server.Keeper.Memory, svc.Server.Keeper.Memory)
	require.Same(t, former.keys, svc.keys)
	require.NotEmpty(t, x402.FindSigned(h.ask(svc, http.MethodGet, offer.PathQuote, nil, "").Body.Bytes()), "it signs before it has started")

	third := h.runtime(h.log)
	defer h.release(third)
	settings := h.settings("one")
	usdc := settings.Rails[0].(USDC)
	usdc.Confirm = evm.Latest
	settings.Rails[0] = usdc
	require.Empty(t, health(t, h.acquireWith(third, settings), "usdc").LastError, "its settings are others")
}

// knownAddress is an observer that has found its address.
type knownAddress struct {
	addressObserver
	address string
}

func (k knownAddress) Address() string { return k.address }

// health is that of a rail.
func health(t *testing.T, svc *Service, rail string) observe.Health {
	t.Helper()
	all := svc.Health()
	n := slices.IndexFunc(all, func(h observe.Health) bool { return h.Rail == rail })
	require.GreaterOrEqual(t, n, 0)
	return all[n]
}

// What a former configuration observed is not shown for long: the observers of this one have read by then.
func TestFormerHealthExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := former{until: time.Now().Add(formerFor), healths: map[string]observe.Health{"usdc": {Rail: "usdc", LastError: "unreachable"}}}
		require.Equal(t, "unreachable", f.or(observe.Health{Rail: "usdc"}).LastError)
		require.Equal(t, "lagging", f.or(observe.Health{Rail: "usdc", LastError: "lagging"}).LastError, "it has read")
		require.Empty(t, f.or(observe.Health{Rail: "btc"}).LastError)
		time.Sleep(formerFor)
		require.Empty(t, f.or(observe.Health{Rail: "usdc"}).LastError)
	})
}

// shiftedChain answers as the endpoint of a chain whose newest block is so much later than this machine's clock.
type shiftedChain time.Duration

func (s shiftedChain) RoundTrip(r *http.Request) (*http.Response, error) {
	var call struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
		return nil, err
	}
	result := fmt.Sprintf(`{"number":"0x190","hash":"0x%064x","timestamp":"0x%x"}`, 1, time.Now().Add(time.Duration(s)).Unix())
	switch call.Method {
	case "eth_chainId":
		result = `"0x14a34"`
	case "eth_getCode":
		result = `"0x60"`
	case "eth_call": // the decimals of the token
		result = fmt.Sprintf(`"0x%064x"`, 6)
	}
	return &http.Response{
		StatusCode: http.StatusOK, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":` + string(call.ID) + `,"result":` + result + `}`)),
	}, nil
}

func TestNewestBlockShowsWrongClock(t *testing.T) {
	h := newHouse(t)
	h.upstream = shiftedChain(time.Hour)
	runtime := h.runtime(h.log)
	defer h.release(runtime)
	svc := h.acquire(runtime, "one")
	h.open(runtime, svc)
	require.Zero(t, runtime.ClockOffset())
	_ = svc.observers["usdc"].(*evm.Observer).Poll(t.Context()) // the fake has no logs
	require.InDelta(t, -3600, runtime.ClockOffset().Seconds(), 5)
	require.Regexp(t, `"clockOffsetSeconds":-(359[5-9]|360[0-5]),`, h.ask(svc, http.MethodGet, offer.PathReceived, nil, "").Body.String())
	require.InDelta(t, -3600, svc.Operator.Diagnose(t.Context()).Clock, 5)
}

// An endpoint that still synchronizes shows an old head, too. It does not move the first start of any account back, because
// payments from before it would count.
func TestOldHeadDoesNotMoveFirstStart(t *testing.T) {
	h := newHouse(t)
	h.upstream = shiftedChain(-5 * time.Hour)
	runtime := h.runtime(h.log)
	defer h.release(runtime)
	svc := h.acquire(runtime, "one")
	h.open(runtime, svc)
	for range 2 {
		_ = svc.observers["usdc"].(*evm.Observer).Poll(t.Context()) // the fake has no logs
	}
	require.InDelta(t, 5*3600, runtime.ClockOffset().Seconds(), 5)
	require.LessOrEqual(t, runtime.clockCorrection(), 10*time.Minute)
	require.Equal(t, "lagging", health(t, svc, "usdc").LastError)
	accounts, err := h.ledger.Accounts(t.Context(), svc.Offer.ID)
	require.NoError(t, err)
	for _, a := range accounts {
		if a.Rail == "usdc" {
			require.Empty(t, a.Origin)
		}
	}
}
