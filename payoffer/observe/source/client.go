package source

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"syscall"
	"time"
)

const (
	// maxDiscarded is the number of bytes of an unread body that are read so that the connection can be used again.
	maxDiscarded = 16 << 10
	// maxWait is the longest pause that a source can ask for.
	maxWait = time.Hour
	// idlePerHost and idleInAll bound the open idle connections; with net/http's two per host, bursts wait for new ones.
	idlePerHost, idleInAll = 64, 512
)

// NewTransport returns a copy of net/http's default transport that keeps more idle connections. A process has one.
func NewTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost, t.MaxIdleConns = idlePerHost, idleInAll
	return t
}

// NewPublicTransport is NewTransport that connects only to public addresses, because a stranger may name the host. If the
// environment names a proxy, that one decides.
func NewPublicTransport() *http.Transport {
	t := NewTransport()
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: "https", Host: "wallet.example"}}); proxy == nil && err == nil {
		t.DialContext = (&net.Dialer{Timeout: 30 * time.Second, Control: refusePrivate}).DialContext
	}
	return t
}

// special are networks that netip calls global, and that lead elsewhere (IANA's registries of special-purpose addresses).
var special = []netip.Prefix{
	netip.MustParsePrefix("100.64.0.0/10"), // behind the NAT of a provider
	netip.MustParsePrefix("192.0.0.0/24"),  // protocols
	netip.MustParsePrefix("198.18.0.0/15"), // benchmarks
	netip.MustParsePrefix("240.0.0.0/4"),   // reserved
	netip.MustParsePrefix("64:ff9b::/96"),  // contain an IPv4 address, as the next two
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2002::/16"),
}

// refusePrivate is a net.Dialer's Control. It runs after the name was resolved.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	a := to.Addr().Unmap()
	in := func(p netip.Prefix) bool { return p.Contains(a) }
	if err != nil || !a.IsGlobalUnicast() || a.IsPrivate() || slices.ContainsFunc(special, in) {
		return errors.New("the address is not public")
	}
	return nil
}

// Client calls sources over HTTP. It follows no redirects, because one could carry a key or a payment elsewhere.
type Client struct {
	// Transport carries the calls; nil means http.DefaultTransport.
	Transport http.RoundTripper
	// Timeout bounds one call, its response included.
	Timeout time.Duration
}

type Request struct {
	// URL is absolute. It can contain a key: errors name only its host.
	URL    string
	Header http.Header
	// Body makes it a POST of JSON; nil is a GET.
	Body []byte
	// Limit bounds the response, in bytes.
	Limit int64
}

// Do returns the body and the header of a 200 response. Other outcomes are an *Error, which wraps an *http.MaxBytesError.
func (c Client) Do(ctx context.Context, r Request) (body []byte, header http.Header, err error) {
	header, err = c.Stream(ctx, r, func(response io.Reader) (err error) {
		body, err = io.ReadAll(response)
		return err
	})
	return body, header, err
}

// Stream passes the body of a 200 response to read. Other outcomes are an *Error; one of read is BadAnswer.
func (c Client) Stream(ctx context.Context, r Request, read func(io.Reader) error) (http.Header, error) {
	request, err := r.build(ctx)
	if err != nil {
		return nil, &Error{Code: Unreachable, cause: withoutURL(err)}
	}
	host := request.URL.Hostname()
	client := http.Client{Transport: c.Transport, Timeout: c.Timeout, CheckRedirect: NoRedirect}
	response, err := client.Do(request)
	if err != nil {
		return nil, &Error{Code: Unreachable, Host: host, cause: withoutURL(err)}
	}
	defer response.Body.Close()
	defer io.CopyN(io.Discard, response.Body, maxDiscarded)
	if status := response.StatusCode; status != http.StatusOK {
		return nil, &Error{Code: statusCode(status), Host: host, Status: status, Wait: retryAfter(response.Header)}
	}
	body := &checkedBody{Reader: response.Body}
	if err := read(http.MaxBytesReader(nil, io.NopCloser(body), r.Limit)); err != nil {
		if body.broken != nil {
			return nil, &Error{Code: Unreachable, Host: host, cause: body.broken}
		}
		return nil, &Error{Code: BadAnswer, Host: host, cause: err}
	}
	return response.Header, nil
}

func (r Request) build(ctx context.Context) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	if r.Body != nil {
		request.Method = http.MethodPost
		request.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(request.Header, r.Header)
	return request, nil
}

// NoRedirect is an http.Client's CheckRedirect that returns the redirect as the response.
func NoRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// withoutURL unwraps the reason of a failed call: net/http's error contains the URL.
func withoutURL(err error) error {
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// checkedBody records whether the connection broke, because a decoder's error does not show it.
type checkedBody struct {
	io.Reader
	broken error
}

func (c *checkedBody) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err != nil && err != io.EOF {
		c.broken = err
	}
	return n, err
}

// retryAfter reads Retry-After (RFC 9110 section 10.2.3), at most maxWait, or 0. A date is relative to the source's own clock.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	seconds, err := strconv.ParseUint(value, 10, 32)
	switch {
	case err == nil:
		return min(time.Duration(seconds)*time.Second, maxWait)
	case errors.Is(err, strconv.ErrRange):
		return maxWait
	}
	until, err := http.ParseTime(value)
	now, unknown := http.ParseTime(h.Get("Date"))
	if err != nil || unknown != nil {
		return 0
	}
	return min(max(0, until.Sub(now)), maxWait)
}
