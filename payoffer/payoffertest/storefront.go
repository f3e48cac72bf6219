package payoffertest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// storefrontPage is how many sales the shop lists on a page.
const storefrontPage = 10

// StorefrontSale is one sale at the shop.
type StorefrontSale struct {
	// ID is the sale's id and Order its number; Sell chooses both when empty.
	ID    string
	Order int64
	// Seller, Product and ShortProduct are ids.
	Seller, Product, ShortProduct string
	// Price is in US cents; Currency is the product's, default "usd".
	Price     int64
	Currency  string
	CreatedAt time.Time

	// RefundedCents, in US cents, is what was refunded of Price.
	RefundedCents        int64
	Disputed, DisputeWon bool
	// Failed is a sale that came to nothing, and Test one of the seller to the
	// seller: the list has neither.
	Failed, Test bool
	// Preorder, GiftReceiver and FreeTrial are sales that move no money.
	Preorder, GiftReceiver, FreeTrial bool
	// Recurring is a further charge of a subscription.
	Recurring bool
}

// StorefrontFault scripts how the API fails.
type StorefrontFault struct {
	// Status is the HTTP status of every answer; 0 is none of this fault.
	Status int
	// Location is that of a redirect.
	Location string
	// Body is sent with it, or with status 200 when Status is 0.
	Body string
	// After lets so many requests through first.
	After int
}

// Storefront stands in for the shop Gumroad: the sales of one seller, the API
// that lists them, and the notices that the shop sends of them.
type Storefront struct {
	server *httptest.Server
	token  string

	mu       sync.Mutex
	arrival  *sync.Cond // signalled for each request
	sales    []*StorefrontSale
	fault    *StorefrontFault
	requests []string
}

// NewStorefront starts a shop on a loopback address whose API takes a token.
// It closes when the test ends.
func NewStorefront(tb testing.TB, token string) *Storefront {
	tb.Helper()
	s := &Storefront{token: token}
	s.arrival = sync.NewCond(&s.mu)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/sales", s.list)
	s.server = httptest.NewServer(mux)
	tb.Cleanup(s.server.Close)
	return s
}

// URL is the address of the API, below which /v2/sales stands.
func (s *Storefront) URL() string { return s.server.URL }

// Transport reaches the API, with connections that end with the test.
func (s *Storefront) Transport() http.RoundTripper { return s.server.Client().Transport }

// Sell adds a sale and returns it as the shop knows it.
func (s *Storefront) Sell(sale StorefrontSale) StorefrontSale {
	s.mu.Lock()
	defer s.mu.Unlock()
	sale.Order = cmp.Or(sale.Order, int64(524459000+len(s.sales)))
	sale.ID = cmp.Or(sale.ID, fmt.Sprintf("%022d==", sale.Order))
	sale.Currency = cmp.Or(sale.Currency, "usd")
	s.sales = append(s.sales, &sale)
	return sale
}

// Change changes a sale and returns it as it is then.
func (s *Storefront) Change(id string, change func(*StorefrontSale)) StorefrontSale {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sale := range s.sales {
		if sale.ID == id {
			change(sale)
			return *sale
		}
	}
	panic("payoffertest: the shop has no sale " + id)
}

// Fail makes the API fail from its next request on; nil ends that.
func (s *Storefront) Fail(fault *StorefrontFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Requests are the queries that the API received.
func (s *Storefront) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Await returns when the API has received that many requests.
func (s *Storefront) Await(requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.requests) < requests {
		s.arrival.Wait()
	}
}

// list answers GET /v2/sales: successful sales, newest first, ten a page.
func (s *Storefront) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.URL.RawQuery)
	s.arrival.Broadcast()
	w.Header().Set("Content-Type", "application/json")
	if s.failed(w) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+s.token {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":"The access token is invalid"}`)
		return
	}
	found, problem := s.find(r)
	if problem != "" {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"status":400,"error":%q}`, problem)
		return
	}
	answer := map[string]any{"success": true}
	if len(found) > storefrontPage {
		found = found[:storefrontPage]
		last := found[storefrontPage-1]
		answer["next_page_key"] = fmt.Sprintf("%s-%d", last.CreatedAt.UTC().Format("20060102150405000000"), last.Order)
		answer["next_page_url"] = "/v2/sales?page_key=" + answer["next_page_key"].(string)
	}
	sales := []map[string]any{}
	for _, sale := range found {
		sales = append(sales, sale.listed())
	}
	answer["sales"] = sales
	_ = json.NewEncoder(w).Encode(answer) // the client may have left
}

// failed answers as scripted.
func (s *Storefront) failed(w http.ResponseWriter) bool {
	if s.fault == nil {
		return false
	}
	if s.fault.After > 0 {
		s.fault.After--
		return false
	}
	if s.fault.Location != "" {
		w.Header().Set("Location", s.fault.Location)
	}
	if s.fault.Status != 0 {
		w.WriteHeader(s.fault.Status)
	}
	fmt.Fprint(w, s.fault.Body)
	return true
}

// find selects by the parameters of https://gumroad.com/api#sales.
func (s *Storefront) find(r *http.Request) (found []*StorefrontSale, problem string) {
	q := r.URL.Query()
	after, err := time.Parse(time.DateOnly, cmp.Or(q.Get("after"), "1970-01-01"))
	if err != nil {
		return nil, "Invalid date format provided in field 'after'. Dates must be in the format YYYY-MM-DD."
	}
	order, err := strconv.ParseInt(cmp.Or(q.Get("order_id"), "0"), 10, 64)
	if err != nil {
		return nil, "Invalid order ID."
	}
	if product := q.Get("product_id"); product != "" && len(product) != 24 {
		return nil, "Invalid product ID."
	}
	for _, sale := range s.sales {
		listed := !sale.Failed && !sale.Test && !sale.Preorder && !sale.GiftReceiver
		if listed && !sale.CreatedAt.Before(after) && (order == 0 || sale.Order == order) &&
			(q.Get("product_id") == "" || sale.Product == q.Get("product_id")) {
			found = append(found, sale)
		}
	}
	slices.SortStableFunc(found, func(a, b *StorefrontSale) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.Order, a.Order))
	})
	if key := q.Get("page_key"); key != "" {
		_, last, _ := strings.Cut(key, "-")
		at := slices.IndexFunc(found, func(sale *StorefrontSale) bool { return strconv.FormatInt(sale.Order, 10) == last })
		if at < 0 {
			return nil, "Invalid page_key."
		}
		found = found[at+1:]
	}
	return found, ""
}
