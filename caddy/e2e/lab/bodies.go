package lab

import (
	"bytes"
	"io"
	"net/http"
)

// WholeBodies is the transport of a test's httputil.ReverseProxy. It reads the body of a request before it sends the request.
// Without it, a target that answers at once makes the proxy close the body before its end was seen, and the answer is cut off
// (golang.org/issue/40747).
var WholeBodies http.RoundTripper = wholeBodies{http.DefaultTransport.(*http.Transport).Clone()}

type wholeBodies struct{ http.RoundTripper }

func (w wholeBodies) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r = r.WithContext(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return w.RoundTripper.RoundTrip(r)
}
