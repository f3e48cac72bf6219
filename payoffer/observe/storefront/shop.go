package storefront

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	callTimeout = 20 * time.Second // the shop gives up on its own database after 15
	maxAnswer   = 4 << 20          // bytes; a page has 10 sales
)

// shop reads the seller's sales from the shop's API (https://gumroad.com/api#sales).
type shop struct {
	sales  string // address of the list
	host   string
	token  string
	client source.Client
}

func newShop(cfg Config) (*shop, error) {
	base, err := offer.ParseURL(cfg.API)
	if err != nil {
		return nil, fmt.Errorf("the storefront's API: %w", err)
	}
	return &shop{
		sales: base.JoinPath("v2", "sales").String(), host: base.Hostname(), token: cfg.Token,
		client: source.Client{Transport: cfg.Transport, Timeout: callTimeout},
	}, nil
}

// page is one page of the list, newest sale first. Next is the key of the
// following page, empty on the last one.
type page struct {
	Success bool              `json:"success"`
	Sales   []json.RawMessage `json:"sales"`
	Next    string            `json:"next_page_key"`
}

// list reads a page. The list has successful sales alone; the shop's answer
// about a single sale (/v2/sales/:id) would be the same for a failed one.
func (s *shop) list(ctx context.Context, query url.Values) (page, error) {
	var p page
	body, _, err := s.client.Do(ctx, source.Request{URL: s.sales + "?" + query.Encode(), Limit: maxAnswer, Header: http.Header{
		"Authorization": {"Bearer " + s.token}, "Accept": {"application/json"},
	}})
	if err == nil && (json.Unmarshal(body, &p) != nil || !p.Success) {
		err = s.fail(observe.ErrBadAnswer)
	}
	return p, err
}

func (s *shop) fail(code string) error { return &observe.Error{Code: code, Host: s.host} }
