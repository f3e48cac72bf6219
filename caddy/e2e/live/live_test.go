package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// breaks are worlds, each named by the one problem in it, which only a network, a running server or an upstream shows.
func breaks(h *house, t *testing.T) map[string]func(w *world) {
	hour := time.Now().Add(time.Hour)
	return map[string]func(w *world){
		"certificate-invalid": func(w *world) {
			w.certificates[payHost] = newAuthority(t).certify(t, time.Now(), hour)
		},
		"headers-changed": func(w *world) { w.hosts[payHost] = h.front(h.wrapped[0], nil) },
		"headers-changed (site)": func(w *world) {
			w.hosts[siteHost] = h.front(h.trusting, func(r *http.Response) error {
				r.Header.Set("Content-Security-Policy", "default-src 'self'")
				return nil
			})
		},
		"headers-cut": func(w *world) { w.hosts[payHost] = h.front(h.trusting, smallBuffer) },
		"gate": func(w *world) {
			front := w.hosts[siteHost]
			w.hosts[siteHost] = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				r.Header.Del("Cookie") // a cache that knows no payers
				front.ServeHTTP(rw, r)
			})
		},
		"chain-id":    func(w *world) { w.hosts[rpcHost] = h.rpc("eth_chainId", "", `"0x1"`) },
		"rpc-failing": func(w *world) { w.hosts[rpcHost] = says(http.StatusInternalServerError, "") },
		"facilitator-network": func(w *world) {
			w.hosts[facilitatorHost] = scripted(t, payoffertest.CallSupported, payoffertest.FacilitatorReply{Body: `{"kinds":[{"x402Version":2,"scheme":"exact","network":"eip155:8453"}]}`})
		},
		"facilitator-careless": func(w *world) {
			w.hosts[facilitatorHost] = scripted(t, payoffertest.CallProbe, payoffertest.FacilitatorReply{})
		},
		"facilitator-failing": func(w *world) { w.hosts[facilitatorHost] = says(http.StatusInternalServerError, "") },
		"price-source": func(w *world) {
			prices := payoffertest.NewPrices(t, time.Now)
			prices.Set("kraken", payoffertest.PriceReply{Status: http.StatusForbidden})
			w.hosts["api.kraken.com"] = toOrigin(t, prices.URL())
		},
		"webhook-unverified": func(w *world) { w.caddyfile = global + hookedSite },
		"webhook-off":        func(w *world) { w.caddyfile = global + offSite },
		"settings-differ":    func(w *world) { w.caddyfile = strings.Replace(w.caddyfile, "base_url", "name Other\n\t\tbase_url", 1) },
	}
}

func TestCheckLiveFindsEachProblem(t *testing.T) {
	h := newHouse(t)
	h.deliver(t)
	t.Run("whole", func(t *testing.T) {
		t.Parallel()
		w := h.world(t)
		got := h.check(t, w)
		require.Zero(t, got.status, got.out+got.err)
		require.Equal(t, "no problems found\n", got.out)
		t.Log("\n" + got.out)
	})
	t.Run("headers of the site that leave those of the offer", func(t *testing.T) {
		t.Parallel()
		w := h.world(t)
		w.hosts[payHost] = h.front(h.wrapped[1], nil)
		got := h.check(t, w)
		require.Equal(t, "no problems found\n", got.out)
	})
	for name, broken := range breaks(h, t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, _ := strings.Cut(name, " ")
			w := h.world(t)
			broken(w)
			got := h.check(t, w, "--json")
			require.Equal(t, 1, got.status, got.out+got.err)
			var report struct {
				CheckedAt string `json:"checked_at"`
				Offers    []struct{ ID string }
				Issues    []struct{ Code, Offer, Subject, What, Fix string }
			}
			require.NoError(t, json.Unmarshal([]byte(got.out), &report), got.out)
			require.NotEmpty(t, report.Offers)
			require.NotEmpty(t, report.CheckedAt)
			require.Len(t, report.Issues, 1, got.out)
			require.Equal(t, code, report.Issues[0].Code, got.out)
			require.NotEmpty(t, report.Issues[0].Fix)
			t.Logf("%+v", report.Issues[0])
		})
	}
	t.Run("a configuration that cannot be read", func(t *testing.T) {
		t.Parallel()
		w := h.world(t)
		w.caddyfile = global
		got := h.check(t, w, "--json")
		require.Equal(t, 2, got.status)
		require.Empty(t, got.out)
		require.Contains(t, got.err, "has no pay_offer directive")
	})
	t.Run("for people", func(t *testing.T) {
		t.Parallel()
		w := h.world(t)
		w.hosts[payHost] = h.front(h.trusting, smallBuffer)
		got := h.check(t, w)
		require.Equal(t, 1, got.status)
		require.True(t, strings.HasPrefix(got.out, "headers-cut (pay.example.org): POST https://pay.example.org/v1/sponsor answers 502 and not 402\n  fix: "), got.out)
		require.Contains(t, got.err, "1 problem found")
		t.Log("\n" + got.out)
	})
}

// deliver sends a delivery to the webhook that somebody else signed.
func (h *house) deliver(t *testing.T) {
	t.Helper()
	body := []byte(`{"id":"evt_1","object":"event"}`)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:"+h.trusting+"/v1/hook/card", bytes.NewReader(body))
	require.NoError(t, err)
	request.Host = hookedHost
	request.Header.Set("Stripe-Signature", payoffertest.SignDelivery(body, time.Now(), "whsec_another_secret_0123456789"))
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
}

// says is a server with one answer.
func says(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// smallBuffer answers as a proxy does whose buffer for headers is too small.
func smallBuffer(answer *http.Response) error {
	var head bytes.Buffer
	_ = answer.Header.Write(&head) // never fails
	if head.Len() > 2048 {
		return fmt.Errorf("upstream sent too big header")
	}
	return nil
}

// rpc is the chain's endpoint, but for one call with data that begins so.
func (h *house) rpc(method, data, result string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var call struct {
			Method string
			Params []json.RawMessage
		}
		if json.Unmarshal(body, &call) == nil && call.Method == method && bytes.Contains(slices.Concat(call.Params...), []byte(data)) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":%s}`, result)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		h.chain.ServeHTTP(w, r)
	})
}

// scripted is a facilitator with an answer of its own to one call.
func scripted(t *testing.T, call string, reply payoffertest.FacilitatorReply) http.Handler {
	f := payoffertest.NewFacilitator(t)
	f.Script(call, reply)
	return f
}
