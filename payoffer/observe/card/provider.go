package card

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// callTimeout bounds one call to the API.
	callTimeout = 30 * time.Second
	// maxAnswer bounds one answer, in bytes.
	maxAnswer = 8 << 20
	// pageSize is how many items a page holds, the most that the API gives,
	// and maxPages how many pages a list is read for.
	pageSize, maxPages = "100", 1000
)

// provider reads the processor's API. It names no version of it, for what is
// read is the same in all.
type provider struct {
	api    *url.URL
	key    string
	client *http.Client
}

func newProvider(api *url.URL, key string, transport http.RoundTripper) *provider {
	return &provider{api: api, key: key, client: &http.Client{
		Transport: transport, Timeout: callTimeout,
		// A redirect would carry the key elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// page is one page of a list, newest first. at is when the processor sent it,
// in Unix seconds by its own clock.
type page struct {
	items []json.RawMessage
	at    int64
}

// each reads a list page by page.
func (p *provider) each(ctx context.Context, path string, query url.Values, do func(page) error) error {
	query.Set("limit", pageSize)
	for range maxPages {
		body, at, err := p.get(ctx, path, query)
		if err != nil {
			return err
		}
		list := parseFields(body)
		items, more := list.list("data"), list.flag("has_more")
		if list.err != nil || list.optional("object") != "list" || more && len(items) == 0 {
			return p.fail(observe.ErrBadAnswer)
		}
		if err := do(page{items, at}); err != nil {
			return err
		}
		if !more {
			return nil
		}
		last := parseFields(items[len(items)-1])
		after := last.id("id", "")
		if last.err != nil || after == query.Get("starting_after") {
			return p.fail(observe.ErrBadAnswer)
		}
		query.Set("starting_after", after)
	}
	return p.fail(observe.ErrBadAnswer)
}

// get reads one answer, and the processor's time.
func (p *provider) get(ctx context.Context, path string, query url.Values) (body []byte, at int64, err error) {
	address := p.api.JoinPath(path)
	address.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, 0, p.fail(observe.ErrUnreachable)
	}
	request.Header.Set("Authorization", "Bearer "+p.key)
	request.Header.Set("Accept", "application/json")
	response, err := p.client.Do(request)
	if err != nil {
		return nil, 0, p.fail(observe.ErrUnreachable)
	}
	defer response.Body.Close()
	if code := statusCode(response.StatusCode); code != "" {
		return nil, 0, p.fail(code)
	}
	body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return nil, 0, p.fail(observe.ErrUnreachable)
	}
	date, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil || len(body) > maxAnswer {
		return nil, 0, p.fail(observe.ErrBadAnswer)
	}
	return body, date.Unix(), nil
}

// statusCode is the error code of an HTTP status, empty for 200.
func statusCode(status int) string {
	switch {
	case status == http.StatusOK:
		return ""
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return observe.ErrUnauthorized
	case status == http.StatusTooManyRequests:
		return observe.ErrLimited
	case status >= 500:
		return observe.ErrUnreachable
	default:
		return observe.ErrBadAnswer
	}
}

func (p *provider) fail(code string) error {
	return &observe.Error{Code: code, Host: p.api.Hostname()}
}
