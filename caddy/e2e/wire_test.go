package e2e

import (
	"io"
	"net/http"
	"testing"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/stretchr/testify/require"
)

// object is a JSON object.
type object = map[string]any

// get returns answer and body of an address, without following a redirect. accept is the Accept header; without one the
// client is a program.
func get(t *testing.T, url string, accept ...string) (*http.Response, string) {
	t.Helper()
	answer, body, err := fetch(url, accept...)
	require.NoError(t, err)
	return answer, body
}

// fetch is get for conditions that are polled: those run beside the test's goroutine, where nothing may end the test.
func fetch(url string, accept ...string) (*http.Response, string, error) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, "", err
	}
	for _, a := range accept {
		request.Header.Add("Accept", a)
	}
	answer, err := server.Client.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer, string(body), err
}
