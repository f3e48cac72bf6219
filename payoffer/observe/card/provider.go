package card

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
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
	client source.Client
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
	body, header, err := p.client.Do(ctx, source.Request{URL: address.String(), Limit: maxAnswer, Header: http.Header{
		"Authorization": {"Bearer " + p.key}, "Accept": {"application/json"},
	}})
	if err != nil {
		return nil, 0, err
	}
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return nil, 0, p.fail(observe.ErrBadAnswer)
	}
	return body, date.Unix(), nil
}

func (p *provider) fail(code string) error {
	return &observe.Error{Code: code, Host: p.api.Hostname()}
}
