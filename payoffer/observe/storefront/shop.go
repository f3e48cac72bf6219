package storefront

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
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
	client *http.Client
}

func newShop(cfg Config) (*shop, error) {
	base, err := offer.ParseURL(cfg.API)
	if err != nil {
		return nil, fmt.Errorf("the storefront's API: %w", err)
	}
	return &shop{
		sales: base.JoinPath("v2", "sales").String(), host: base.Hostname(), token: cfg.Token,
		client: &http.Client{
			Transport: cfg.Transport, Timeout: callTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.sales+"?"+query.Encode(), nil)
	if err != nil {
		return page{}, s.fail(observe.ErrUnreachable)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Accept", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return page{}, s.fail(observe.ErrUnreachable)
	}
	defer resp.Body.Close()
	if code := statusCode(resp.StatusCode); code != "" {
		return page{}, s.fail(code)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return page{}, s.fail(observe.ErrUnreachable)
	}
	var p page
	if len(body) > maxAnswer || json.Unmarshal(body, &p) != nil || !p.Success {
		return page{}, s.fail(observe.ErrBadAnswer)
	}
	return p, nil
}

// statusCode is the error code of an HTTP status, empty for success.
func statusCode(status int) string {
	switch {
	case status == http.StatusOK:
		return ""
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return observe.ErrUnauthorized
	case status == http.StatusTooManyRequests:
		return observe.ErrLimited
	case status >= http.StatusInternalServerError:
		return observe.ErrUnreachable
	default:
		return observe.ErrBadAnswer
	}
}

func (s *shop) fail(code string) error { return &observe.Error{Code: code, Host: s.host} }
