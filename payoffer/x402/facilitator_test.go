package x402

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const urlKey = "s3cr3t-url-key"

func TestNewFacilitatorURL(t *testing.T) {
	for _, c := range []struct {
		address string
		fine    bool
	}{
		{"https://facilitator.example/x402/" + urlKey, true},
		{"http://127.0.0.1:4021", true},
		{"http://facilitator.example/" + urlKey, false},
		{"https://user:" + urlKey + "@facilitator.example", false},
		{"facilitator.example/" + urlKey, false},
		{"https://facilitator.example/%zz" + urlKey, false},
	} {
		t.Run(c.address, func(t *testing.T) {
			f, err := NewFacilitator(FacilitatorConfig{URL: c.address})
			require.Equal(t, c.fine, err == nil, "%v", err)
			if err != nil {
				require.NotContains(t, err.Error(), urlKey)
				return
			}
			require.NotContains(t, f.Host(), urlKey)
		})
	}
}

func TestFacilitatorCallURLs(t *testing.T) {
	var asked string
	f, err := NewFacilitator(FacilitatorConfig{
		URL: "https://facilitator.example/x402/?key=" + urlKey,
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			asked = r.URL.String()
			return nil, &net.OpError{Op: "dial", Err: errors.New("no route to " + r.URL.String())}
		}),
	})
	require.NoError(t, err)
	_, err = f.verify(t.Context(), facilitatorRequest{PaymentPayload: []byte(`{}`), PaymentRequirements: []byte(`{}`)}, true)
	require.Equal(t, "https://facilitator.example/x402/verify?key="+urlKey, asked)
	require.EqualError(t, err, "unreachable", "neither the address nor a foreign text")
}

type roundTrip func(*http.Request) (*http.Response, error)

func (rt roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return rt(r) }

// loopbackOnly dials loopback addresses; every other name is unknown to it.
func loopbackOnly(ctx context.Context, network, address string) (net.Conn, error) {
	if !strings.HasPrefix(address, "127.0.0.1:") {
		return nil, &net.DNSError{Err: "no such host", Name: address, IsNotFound: true}
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

func TestFacilitatorNotReachedWithoutConnection(t *testing.T) {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	closed := "http://" + listener.Addr().String()
	require.NoError(t, listener.Close())
	tls := payoffertest.NewFacilitator(t) // speaks plain http where TLS is expected

	for name, address := range map[string]string{
		"refused": closed, "no such name": "https://facilitator.invalid", "no TLS": "https" + tls.URL()[len("http"):],
	} {
		t.Run(name, func(t *testing.T) {
			f, err := NewFacilitator(FacilitatorConfig{URL: address, Timeout: time.Minute, Transport: &http.Transport{DialContext: loopbackOnly}})
			require.NoError(t, err)
			_, err = f.settle(t.Context(), facilitatorRequest{PaymentPayload: []byte(`{}`), PaymentRequirements: []byte(`{}`)})
			var failed *callError
			require.ErrorAs(t, err, &failed)
			require.True(t, failed.notSent)
		})
	}
}

func TestFacilitatorNotReachedByConnectTimeout(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f, err := NewFacilitator(FacilitatorConfig{
			URL: "https://facilitator.example",
			// A transport that is still about to connect.
			Transport: roundTrip(func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() }),
		})
		require.NoError(t, err)
		_, err = f.settle(t.Context(), facilitatorRequest{PaymentPayload: []byte(`{}`), PaymentRequirements: []byte(`{}`)})
		require.Equal(t, &callError{code: "timeout", notSent: true}, err)
	})
}

func TestFacilitatorsNeedDifferentHosts(t *testing.T) {
	o, rails := testOffer(t, setup{ledger: nopBook{}}.withDefaults(t))
	var same []*Facilitator
	for _, address := range []string{"https://facilitator.example/a", "https://facilitator.example/b"} {
		f := must(NewFacilitator(FacilitatorConfig{URL: address}))(t)
		same = append(same, f)
	}
	_, err := New(Config{Offer: o, Rails: []Rail{{USDC: rails[0], Facilitators: same}}, Limiter: limited(1, time.Minute)})
	require.ErrorContains(t, err, "two facilitators on the host facilitator.example")
	_, err = New(Config{Offer: o, Rails: []Rail{{USDC: rails[0]}}, Limiter: limited(1, time.Minute)})
	require.ErrorContains(t, err, "has no facilitator")
}

// A header may be the name of any key; the value goes to the configured host alone.
func TestFacilitatorHeaderStaysOnHost(t *testing.T) {
	const key = "s3cr3t-header-key"
	bubble(t, "", func(t *testing.T) {
		f, elsewhere := payoffertest.NewPipedFacilitator(t, "one"), 0
		transport := f.Transport()
		for name, value := range map[string]string{"x-secret-key": key, "X402_API_KEY": key, "Authorization": "Bearer " + key} {
			before := map[string]int{}
			for _, call := range []string{verifyCall, settleCall, supportedCall} {
				before[call] = len(f.Calls(call))
			}
			var logs bytes.Buffer
			made, err := NewFacilitator(FacilitatorConfig{
				URL: f.URL(), Header: name, HeaderValue: value, Logger: slog.New(slog.NewTextHandler(&logs, nil)),
				Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					if r.URL.Host != "one.localhost" {
						elsewhere++
					}
					return transport.RoundTrip(r)
				}),
			})
			require.NoError(t, err)
			s := newShop(t, setup{made: []*Facilitator{made}})
			s.run(time.Minute)
			require.Equal(t, Settled, s.pay(stranger(len(f.Calls(settleCall))).v2(t)).Status)
			for call, first := range before {
				require.Greater(t, len(f.Calls(call)), first, call)
				for _, c := range f.Calls(call)[first:] {
					require.Equal(t, value, c.Header.Get(name), call)
				}
			}

			f.Script(verifyCall, payoffertest.FacilitatorReply{Status: 307, Location: "http://two.localhost/verify", Body: " "},
				payoffertest.FacilitatorReply{Status: 401, Body: key}, payoffertest.FacilitatorReply{Reason: "bad " + key, Message: key}, works)
			for n := range 3 {
				got := s.pay(stranger(100 + n).v2(t))
				require.NotEqual(t, Settled, got.Status)
				require.NotContains(t, got.Reason+got.Detail, key)
			}
			require.NotContains(t, logs.String()+s.logs.String(), key)
		}
		require.Zero(t, elsewhere, "a redirect is not followed")
	})
}

func TestLimiterRefill(t *testing.T) {
	l, now := NewLimiter(Limit{Attempts: 3, Period: time.Minute}), time.Unix(1_000, 0)
	for range 3 {
		require.Zero(t, l.TakeAttempt("192.0.2.1", now))
	}
	for range 5 { // what is refused costs nothing
		require.Equal(t, 20*time.Second, l.TakeAttempt("192.0.2.1", now))
	}
	require.InDelta(t, time.Second, l.TakeAttempt("192.0.2.1", now.Add(19*time.Second)), float64(time.Microsecond))
	require.Zero(t, l.TakeAttempt("192.0.2.1", now.Add(20*time.Second)))
	require.NotZero(t, l.TakeAttempt("192.0.2.1", now.Add(20*time.Second)))
}

func TestLimiterClientKey(t *testing.T) {
	for _, c := range []struct {
		name, one, two string
		same           bool
	}{
		{"two addresses", "192.0.2.1", "192.0.2.2", false},
		{"two IPv6 networks", "2001:db8:0:1::1", "2001:db8:0:2::1", false},
		{"one IPv6 network", "2001:db8:0:1::1", "2001:db8:0:1:ffff::2", true},
		{"two mapped addresses", "::ffff:192.0.2.1", "::ffff:192.0.2.2", false},
		{"an address and its mapped form", "192.0.2.1", "::ffff:192.0.2.1", true},
		{"an address with a zone", "fe80::1%eth0", "fe80::2", true},
		{"no address", "", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, now := NewLimiter(Limit{Attempts: 1, Period: time.Minute}), time.Unix(1_000, 0)
			require.Zero(t, l.TakeAttempt(c.one, now))
			require.Equal(t, c.same, l.TakeAttempt(c.two, now) > 0)
		})
	}
}

func TestLimiterMemoryIsBounded(t *testing.T) {
	l, now := NewLimiter(Limit{Attempts: 1, Period: time.Minute}), time.Unix(1_000, 0)
	for n := range 2 * maxClients {
		require.Zero(t, l.TakeAttempt(fmt.Sprint(n), now))
		require.LessOrEqual(t, len(l.clients), maxClients)
	}
	// Those whose bucket is full again go first.
	l = NewLimiter(Limit{Attempts: 1, Period: time.Minute})
	for n := range maxClients - 1 {
		l.TakeAttempt(fmt.Sprint(n), now)
	}
	later := now.Add(2 * time.Minute)
	l.TakeAttempt("recent", later)
	l.TakeAttempt("new", later)
	require.Len(t, l.clients, 2)
	require.NotZero(t, l.TakeAttempt("recent", later))
}

func TestSanitizeMessage(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"  a \t b\u2003c\n\nd  ":           "a b c d",
		"safe\u202egnp.exe\u2066 a\u200bb": "safegnp.exe ab",
		`say "no" “no” «no»`:               "say 'no' 'no' 'no'",
		strings.Repeat("é", maxMessage):    strings.Repeat("é", maxMessage),
		strings.Repeat("é", maxMessage+1):  strings.Repeat("é", maxMessage-1) + "…",
	} {
		_, got := new(Facilitator).sanitize(reasonUnspecified, text)
		require.Equal(t, want, got)
	}
}

func FuzzSanitize(f *testing.F) {
	f.Add("insufficient funds")
	f.Add("a\n\nb\u202e\"\xff")
	f.Fuzz(func(t *testing.T, text string) {
		_, got := new(Facilitator).sanitize(reasonUnspecified, text)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, utf8.RuneCountInString(got), maxMessage)
		require.Equal(t, -1, strings.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) || r == '"' }))
	})
}

func TestSanitizeReasonCodeAndText(t *testing.T) {
	for _, c := range []struct {
		name, reason, message string
		code, text            string
	}{
		{"a code", "insufficient_funds", "", "insufficient_funds", ""},
		{"a code and a text", "insufficient_funds", "the payer has 3 of 42 USDC", "insufficient_funds", "the payer has 3 of 42 USDC"},
		{"a text where the code belongs", "authorization is expired", "", "unspecified", "authorization is expired"},
		{"a text that tries more", `"><script>` + "\n\n", "", "unspecified", "'><script>"},
	} {
		bubble(t, c.name, func(t *testing.T) {
			f := payoffertest.NewPipedFacilitator(t, "one")
			f.Script(verifyCall, payoffertest.FacilitatorReply{Reason: c.reason, Message: c.message})
			f.Script(settleCall, payoffertest.FacilitatorReply{Reason: c.reason, Message: c.message})
			s := newShop(t, setup{facilitators: one(f), chain: newChain(t)})
			got := s.pay(newBuyer(1).v2(t))
			require.Equal(t, Refused, got.Status)
			require.Equal(t, c.code, got.Reason)
			require.Equal(t, "The facilitator rejected this payment; correct what the reason names and sign a new one. Nothing was charged.", got.Detail)
			require.Contains(t, s.logs.String(), fmt.Sprintf("reason=%s message=", c.code))
			require.Contains(t, s.logs.String(), c.text)

			reply := must(s.facilitators[0].settle(t.Context(), s.request(newBuyer(1))))(t)
			require.Equal(t, c.code, reply.reason)
			require.Equal(t, c.text, reply.message)
		})
	}
}

func TestSanitizeHidesFacilitatorKey(t *testing.T) {
	key := edKey(t).secret
	f, err := NewFacilitator(FacilitatorConfig{
		URL: "https://user-pays.example/facilitator/v2/" + urlKey + "?token=T0P-s3cr3t", KeyID: "0c8d6a1e-key", KeySecret: key,
	})
	require.NoError(t, err)
	for _, secret := range []string{urlKey, "T0P-s3cr3t", "0c8d6a1e-key", key} {
		code, text := f.sanitize(secret, "no such path: /"+secret+"/verify")
		require.Equal(t, [2]string{"unspecified", ""}, [2]string{code, text})
		_, text = f.sanitize("what about "+secret, "")
		require.Empty(t, text)
		_, text = f.sanitize("", strings.Repeat("x", maxMessage-8)+" "+secret)
		require.Empty(t, text, "nor a part of it")
		_, text = f.sanitize("", "about "+secret[:4]+"\x00"+secret[4:])
		require.Empty(t, text, "nor one that becomes it")
	}
	code, text := f.sanitize("v2_payment", "this facilitator is of version v2")
	require.Equal(t, [2]string{"v2_payment", "this facilitator is of version v2"}, [2]string{code, text}, "words of every address are no keys")
}
