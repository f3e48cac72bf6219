package storefront

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

const (
	callTimeout = 20 * time.Second // the shop gives up on its own database after 15
	maxAnswer   = 4 << 20          // bytes; a page has 10 sales
	// maxPrice bounds a price, in US cents: a thousand million dollars.
	maxPrice = 100_000_000_000
)

var (
	saleID      = regexp.MustCompile(`^[A-Za-z0-9_=-]{1,64}$`)
	orderNumber = regexp.MustCompile(`^[1-9][0-9]{0,14}$`)
)

// shop reads the seller's sales from the shop's API (https://gumroad.com/api#sales).
type shop struct {
	sales  string // address of the list
	host   string
	token  string
	client source.Client
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

// sale is what is read of a sale in the shop's list. It holds nothing of the
// buyer.
type sale struct {
	ID        string      `json:"id"`
	Order     json.Number `json:"order_id"`
	Seller    string      `json:"seller_id"`
	Product   string      `json:"product_id"`
	Permalink string      `json:"product_permalink"` // the short id
	CreatedAt time.Time   `json:"created_at"`
	// Price is in US cents, whatever the currency of the product.
	Price int64 `json:"price"`
	// Currency is the product's, CurrencySymbol its sign; Refundable is a
	// decimal number of it, as in "1,234.50".
	Currency       string `json:"currency"`
	CurrencySymbol string `json:"currency_symbol"`
	Refundable     string `json:"amount_refundable_in_currency"`

	Refunded          bool `json:"refunded"`
	PartiallyRefunded bool `json:"partially_refunded"`
	// Chargedback is false again once a dispute was won; Disputed stays.
	Chargedback bool `json:"chargedback"`
	Disputed    bool `json:"disputed"`
	DisputeWon  bool `json:"dispute_won"`

	Preorder     bool `json:"is_preorder_authorization"`
	GiftReceiver bool `json:"is_gift_receiver_purchase"`
	// FreeTrialEnds is set on all sales of a subscription that began with a
	// free trial; the first of them, which is not Recurring, was never charged.
	FreeTrialEnds string `json:"free_trial_ends_on"`
	Recurring     bool   `json:"recurring_charge"`
}

// readSale reads one sale of the list and reports whether it is one.
func readSale(raw json.RawMessage, now time.Time) (s sale, ok bool) {
	err := json.Unmarshal(raw, &s)
	return s, err == nil && saleID.MatchString(s.ID) && orderNumber.MatchString(s.Order.String()) &&
		observe.Plausible(s.CreatedAt.Unix(), now) && s.Price >= 0 && s.Price <= maxPrice
}

// ours reports whether a sale is money of this offer.
func (o *Observer) ours(s sale) bool {
	return (s.Product == o.cfg.Product || s.Permalink == o.cfg.Product) && (o.cfg.Seller == "" || s.Seller == o.cfg.Seller) &&
		s.Price > 0 && !s.Preorder && !s.GiftReceiver && (s.FreeTrialEnds == "" || s.Recurring) &&
		s.CreatedAt.Unix() >= o.origin.Load()
}

// gone reports whether a dispute holds the money.
func (s sale) gone() bool { return s.Chargedback || s.Disputed && !s.DisputeWon }

// refunded is what was refunded, in US cents. Of a part the shop tells only
// what is left, in the currency of the product: where that is not US dollars
// the whole is taken as refunded, so that a sum is too low rather than too high.
func (s sale) refunded() int64 {
	if s.Refunded {
		return s.Price
	}
	if !s.PartiallyRefunded {
		return 0
	}
	left, cut, ok := offer.ParseDecimal(strings.ReplaceAll(s.Refundable, ",", ""), 2) // "1,234.50"
	if ok && !cut && s.inDollars() && left < s.Price {
		return s.Price - left
	}
	return s.Price
}

// inDollars: older answers have no currency, and other dollars other signs, as
// "CAD$".
func (s sale) inDollars() bool {
	return s.Currency == "usd" || s.Currency == "" && s.CurrencySymbol == "$"
}

// The returns of a sale in the ledger: the shop reports the sum of its refunds,
// and has one dispute a sale.
const (
	refundsID = "refunds"
	disputeID = "dispute"
)

// evidence names a sale at the shop.
type evidence struct {
	Provider string `json:"provider"`
	Sale     string `json:"sale"`
	Order    string `json:"order"`
}

// confirmed is the sighting of a sale that the shop listed, and whether it is
// news. Refunds and disputes carry the time at which they were read, so that the
// latest reading holds: a refund may fail, and a dispute may be won.
func (o *Observer) confirmed(ctx context.Context, s sale) (sighting ledger.Sighting, news bool, err error) {
	known, _, err := o.cfg.Ledger.Receipt(ctx, o.cfg.OfferID, o.cfg.Account, s.ID)
	if err != nil {
		return sighting, false, observe.ErrNoLedger
	}
	refunded, gone := s.refunded(), s.gone()
	if known.EvidenceLevel == ledger.LevelProvider && known.Amount == s.Price && known.Refunded == refunded &&
		(known.Status == ledger.StatusReversed) == gone {
		return sighting, false, nil
	}
	sighting = ledger.Sighting{
		Offer: o.cfg.OfferID, Account: o.cfg.Account, Rail: o.cfg.Rail, ExternalID: s.ID, Via: "link",
		State: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelProvider, Cause: "provider",
		Asset: "USD", Amount: s.Price, USDCents: &s.Price, ValueBasis: ledger.BasisFace,
		Evidence: observe.Evidence(evidence{"gumroad", s.ID, s.Order.String()}), OccurredAt: s.CreatedAt.Unix(),
	}
	if known.EvidenceLevel != ledger.LevelProvider && s.CreatedAt.Unix() < o.first.Load() {
		sighting.Cause = ledger.CauseBackfilled
	}
	now := o.cfg.Now().Unix()
	if refunded > 0 || known.Refunded > 0 {
		sighting.Returns = append(sighting.Returns, ledger.Return{
			ID: refundsID, Kind: ledger.ReturnTotal, Amount: refunded, Gone: refunded > 0, At: now,
		})
	}
	if gone || known.Status == ledger.StatusReversed {
		sighting.Returns = append(sighting.Returns, ledger.Return{
			ID: disputeID, Kind: ledger.ReturnReversal, Gone: gone, At: now,
		})
	}
	return sighting, true, nil
}
