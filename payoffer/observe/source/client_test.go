package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serve starts a source that answers every call so.
func serve(t *testing.T, answer http.HandlerFunc) (url string) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return server.URL
}

// transport answers without a network.
type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func TestClientReturnsBodyAndHeader(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Asked", r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Accept")+r.Header.Get("Content-Type"))
		_, _ = io.Copy(w, r.Body)
		_, _ = io.WriteString(w, "!")
	})
	body, header, err := Client{}.Do(t.Context(), Request{URL: url + "/a?b=c", Header: http.Header{"Accept": {"text/x"}}, Limit: 1})
	require.NoError(t, err)
	require.Equal(t, "!", string(body))
	require.Equal(t, "GET /a?b=c text/x", header.Get("X-Asked"))

	body, header, err = Client{}.Do(t.Context(), Request{URL: url, Body: []byte("{}"), Limit: 3})
	require.NoError(t, err)
	require.Equal(t, "{}!", string(body))
	require.Equal(t, "POST / application/json", header.Get("X-Asked"))
}

func TestClientStatusCodes(t *testing.T) {
	for status, want := range map[int]string{
		204: BadAnswer, 302: BadAnswer, 307: BadAnswer, 400: BadAnswer, 404: BadAnswer, 410: BadAnswer,
		401: Unauthorized, 403: Unauthorized, 429: Limited, 408: Unreachable, 500: Unreachable, 503: Unreachable,
	} {
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Error("the redirect was followed")
			}
			w.Header().Set("Location", "/elsewhere")
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
		})
		_, _, err := Client{}.Do(t.Context(), Request{URL: url + "/secret", Limit: 10})
		require.Equal(t, &Error{Code: want, Host: "127.0.0.1", Status: status, Wait: 7 * time.Second}, err, status)
		require.EqualError(t, err, want+" (127.0.0.1)")
		require.Equal(t, want, Code(fmt.Errorf("poll: %w", err)))
	}
	require.Equal(t, Unreachable, Code(errors.New("other")))
	require.Empty(t, Code(nil))
}

func TestClientBodyLimit(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "12345") })
	body, _, err := Client{}.Do(t.Context(), Request{URL: url, Limit: 5})
	require.NoError(t, err)
	require.Equal(t, "12345", string(body))
	_, _, err = Client{}.Do(t.Context(), Request{URL: url, Limit: 4})
	require.EqualError(t, err, "bad_answer (127.0.0.1)")
	require.ErrorAs(t, err, new(*http.MaxBytesError))
	malformed := errors.New("malformed")
	_, err = Client{}.Stream(t.Context(), Request{URL: url, Limit: 5}, func(io.Reader) error { return malformed })
	require.EqualError(t, err, "bad_answer (127.0.0.1)")
	require.ErrorIs(t, err, malformed)
}

func TestClientBrokenConnection(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "9")
		_, _ = io.WriteString(w, "12345")
	})
	_, _, err := Client{}.Do(t.Context(), Request{URL: url, Limit: 10})
	require.EqualError(t, err, "unreachable (127.0.0.1)")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	decode := func(r io.Reader) error {
		_, _ = io.ReadAll(r)
		return errors.New("a decoder that swallows the reason")
	}
	_, err = Client{}.Stream(t.Context(), Request{URL: url, Limit: 10}, decode)
	require.Equal(t, Unreachable, Code(err))
}

func TestClientErrorHidesURL(t *testing.T) {
	for name, url := range map[string]string{
		"nobody there":  "http://127.0.0.1:1/secret",
		"no URL":        "http://a b/secret",
		"another sheme": "ftp://host.example/secret",
	} {
		_, _, err := Client{}.Do(t.Context(), Request{URL: url, Limit: 1})
		require.Equal(t, Unreachable, Code(err), name)
		require.False(t, err.(*Error).Timeout())
		for ; err != nil; err = errors.Unwrap(err) {
			require.NotContains(t, err.Error(), "secret", name)
		}
	}
}

func TestClientTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := transport(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		begin := time.Now()
		_, _, err := Client{Transport: hang, Timeout: time.Minute}.Do(t.Context(), Request{URL: "http://source.example/", Limit: 1})
		require.EqualError(t, err, "unreachable (source.example)")
		require.True(t, err.(*Error).Timeout())
		require.Equal(t, time.Minute, time.Since(begin))

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err = Client{Transport: hang, Timeout: time.Minute}.Do(ctx, Request{URL: "http://source.example/", Limit: 1})
		require.False(t, err.(*Error).Timeout())
	})
}

func TestRetryAfterFormats(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"":                              0,
		"0":                             0,
		"120":                           2 * time.Minute,
		"3601":                          time.Hour,
		"99999999999999999999999999":    time.Hour,
		"-5":                            0,
		"1.5":                           0,
		"soon":                          0,
		"Fri, 15 Jan 2027 08:00:30 GMT": 30 * time.Second,
		"Fri, 15 Jan 2027 07:59:30 GMT": 0,
		"Sat, 15 Jan 2028 08:00:00 GMT": time.Hour,
	} {
		h := http.Header{"Retry-After": {value}, "Date": {"Fri, 15 Jan 2027 08:00:00 GMT"}}
		require.Equal(t, want, retryAfter(h), "%q", value)
	}
	require.Zero(t, retryAfter(http.Header{}))
	require.Zero(t, retryAfter(http.Header{"Retry-After": {"Fri, 15 Jan 2027 08:00:30 GMT"}}), "by whose clock?")
}

// A burst of calls finds the connections of the burst before it.
func TestTransportKeepsConnections(t *testing.T) {
	const burst = 32
	var arrived sync.WaitGroup
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived.Done()
		arrived.Wait() // all at once
	}))
	defer server.Close()
	transport := NewTransport()
	defer transport.CloseIdleConnections()
	var dialed atomic.Int64
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed.Add(1)
		return dial(ctx, network, address)
	}
	for range 3 {
		arrived.Add(burst)
		var calls sync.WaitGroup
		for range burst {
			calls.Go(func() {
				response, err := (&http.Client{Transport: transport}).Get(server.URL)
				if assert.NoError(t, err) {
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
			})
		}
		calls.Wait()
	}
	require.EqualValues(t, burst, dialed.Load())
}

func TestPublicTransportRefusesPrivateAddresses(t *testing.T) {
	asked := false
	url := serve(t, func(http.ResponseWriter, *http.Request) { asked = true })
	client := Client{Transport: NewPublicTransport()}
	for _, address := range []string{url, strings.Replace(url, "127.0.0.1", "localhost", 1)} {
		_, _, err := client.Do(t.Context(), Request{URL: address, Limit: 1})
		require.Equal(t, Unreachable, Code(err))
		require.ErrorContains(t, errors.Unwrap(err), "the address is not public", "a name is resolved first")
	}
	require.False(t, asked)
	for _, private := range []string{
		"127.0.0.1:443", "10.1.2.3:443", "172.16.0.1:443", "192.168.1.1:443", "169.254.169.254:80", "100.64.0.1:443", "0.0.0.0:443", "224.0.0.1:443",
		"192.0.0.8:443", "198.18.0.1:443", "198.19.255.255:443", "240.0.0.1:443", "255.255.255.255:443",
		"[64:ff9b::a00:1]:443", "[64:ff9b:1::a00:1]:443", "[2002:a00:1::1]:443", "[::ffff:198.18.0.1]:443",
		"[::1]:443", "[fe80::1]:443", "[fd00::1]:443", "[::ffff:10.0.0.1]:443", "[::]:443", "wallet.example:443",
	} {
		require.Error(t, refusePrivate("tcp", private, nil), private)
	}
	for _, public := range []string{"8.8.8.8:443", "[2606:4700::1111]:443", "100.128.0.1:443", "100.63.255.255:443", "198.20.0.1:443", "192.0.1.1:443", "[2001:4860::8888]:443"} {
		require.NoError(t, refusePrivate("tcp", public, nil), public)
	}
}

func TestListenersAreCalledUntilTheyStop(t *testing.T) {
	var l Listeners
	l.Notify()
	var called []string
	first := l.Listen(func() { called = append(called, "first") })
	second := l.Listen(func() { called = append(called, "second") })
	l.Notify()
	first()
	first()
	l.Notify()
	second()
	l.Notify()
	require.Equal(t, []string{"first", "second", "second"}, called)
}
