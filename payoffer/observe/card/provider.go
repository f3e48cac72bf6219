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
	callTimeout = 30 * time.Second
	maxAnswer   = 8 << 20 // bytes
	// pageSize is the most items that the API puts on a page, and maxPages bounds the pages of a list.
	pageSize, maxPages = "100", 1000
)

// provider is a client of Stripe's API. What it reads is the same in all API versions.
type provider struct {
	api    *url.URL
	key    string
	client source.Client
}

// each reads a list page by page, newest first. at is when Stripe sent the page, in Unix seconds by its clock.
func (p *provider) each(ctx context.Context, path string, query url.Values, do func(items []json.RawMessage, at int64) error) error {
	query.Set("limit", pageSize)
	for range maxPages {
		body, at, err := p.get(ctx, path, query)
		if err != nil {
			return err
		}
		var list struct {
			Object string            `json:"object"`
			Data   []json.RawMessage `json:"data"`
			More   *bool             `json:"has_more"`
		}
		if decode(body, &list) != nil || list.Object != "list" || list.Data == nil || list.More == nil || *list.More && len(list.Data) == 0 {
			return p.fail(observe.ErrBadAnswer)
		}
		if err := do(list.Data, at); err != nil {
			return err
		}
		if !*list.More {
			return nil
		}
		var last struct {
			ID string `json:"id"`
		}
		if decode(list.Data[len(list.Data)-1], &last) != nil || last.ID == "" || last.ID == query.Get("starting_after") {
			return p.fail(observe.ErrBadAnswer)
		}
		query.Set("starting_after", last.ID)
	}
	return p.fail(observe.ErrBadAnswer)
}

// get returns a response and its time by Stripe's clock.
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
