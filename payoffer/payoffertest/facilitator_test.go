package payoffertest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func settlePayload(nonce int) string {
	return fmt.Sprintf(`{"paymentPayload":{"payload":{"authorization":{"nonce":"0x%064x","from":"0xA"}}},"paymentRequirements":{"network":"eip155:84532"}}`, nonce)
}

func ask(t *testing.T, f *Facilitator, path, body string) string {
	t.Helper()
	response, err := (&http.Client{Transport: f.Transport()}).Post(f.URL()+path, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(answer)
}

func TestFacilitatorBroadcastsOneSettlementAtATime(t *testing.T) {
	f := NewFacilitator(t)
	var under atomic.Int32
	f.OnBroadcast(func(s Settlement) (string, error) {
		if under.Add(1) != 1 {
			return "", errors.New("two at once")
		}
		defer under.Add(-1)
		return "0x" + s.Nonce[2:], nil
	})
	var work sync.WaitGroup
	for n := range 40 {
		work.Go(func() { ask(t, f, CallSettle, settlePayload(n/2)) })
	}
	work.Wait()
	for n := range 20 {
		require.Equal(t, 1, f.Settled(fmt.Sprintf("0x%064x", n)), "each nonce once, as on a chain")
	}
	require.Len(t, f.Calls(CallSettle), 40)
	require.Contains(t, ask(t, f, CallSettle, settlePayload(1)), reasonSpent)
}

func TestFacilitatorFollowsItsScript(t *testing.T) {
	f := NewFacilitator(t)
	f.Script(CallVerify, FacilitatorReply{Reason: "expired"}, FacilitatorReply{Status: 503, Body: "busy"}, FacilitatorReply{})
	require.JSONEq(t, `{"isValid":false,"invalidReason":"expired","payer":"0xA"}`, ask(t, f, CallVerify, settlePayload(1)))
	require.Equal(t, "busy", ask(t, f, CallVerify, settlePayload(1)))
	for range 2 {
		require.JSONEq(t, `{"isValid":true,"payer":"0xA"}`, ask(t, f, CallVerify, settlePayload(1)))
	}
	require.Equal(t, settlePayload(1), string(f.Calls(CallVerify)[0].Body))
	require.Contains(t, ask(t, f, CallSupported, ""), `"eip155:84532"`)
}
