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
	callTimeout = 20 * time.Second // Gumroad's own queries time out after 15
	maxAnswer   = 4 << 20          // bytes; a page has 10 sales
	maxPrice    = 100_000_000_000  // US cents
)

var (
	saleID      = regexp.MustCompile(`^[A-Za-z0-9_=-]{1,64}$`)
	orderNumber = regexp.MustCompile(`^[1-9][0-9]{0,14}$`)
)

// shop is a client of Gumroad's API (https://gumroad.com/api#sales).
type shop struct {
	sales  string // address of the list
	host   string
	token  string
	client source.Client
}

// page is one page of the list, newest sale first. Next is the key of the next page, empty on the last one.
type page struct {
	Success bool              `json:"success"`
	Sales   []json.RawMessage `json:"sales"`
	Next    string            `json:"next_page_key"`
}

// list reads a page. The list contains only successful sales; /v2/sales/:id does not tell them from failed ones.
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

// sale is the part of a listed sale that is read. It has no data of the buyer.
type sale struct {
	ID        string      `json:"id"`
	Order     json.Number `json:"order_id"`
	Seller    string      `json:"seller_id"`
	Product   string      `json:"product_id"`
	Permalink string      `json:"product_permalink"` // the short id
	CreatedAt time.Time   `json:"created_at"`
	// Price is in US cents, whatever the currency of the product.
	Price int64 `json:"price"`
	// Currency is the product's, and Refundable an amount of it such as "1,234.50".
	Currency       string `json:"currency"`
	CurrencySymbol string `json:"currency_symbol"`
	Refundable     string `json:"amount_refundable_in_currency"`

	Refunded          bool `json:"refunded"`
	PartiallyRefunded bool `json:"partially_refunded"`
	// Chargedback becomes false when a dispute is won; Disputed stays true.
	Chargedback bool `json:"chargedback"`
	Disputed    bool `json:"disputed"`
	DisputeWon  bool `json:"dispute_won"`

	Preorder     bool `json:"is_preorder_authorization"`
	GiftReceiver bool `json:"is_gift_receiver_purchase"`
	// FreeTrialEnds is set on all sales of a subscription that began with a free trial. The first one, which is not
	// Recurring, was never charged.
	FreeTrialEnds string `json:"free_trial_ends_on"`
	Recurring     bool   `json:"recurring_charge"`
}

// readSale reads one sale of the list; ok is false if it is malformed.
func readSale(raw json.RawMessage, now time.Time) (s sale, ok bool) {
	err := json.Unmarshal(raw, &s)
	return s, err == nil && saleID.MatchString(s.ID) && orderNumber.MatchString(s.Order.String()) &&
		observe.Plausible(s.CreatedAt.Unix(), now) && s.Price >= 0 && s.Price <= maxPrice
}

// belongsToOffer reports whether a sale is money for this offer.
func (o *Observer) belongsToOffer(s sale) bool {
	return (s.Product == o.cfg.Product || s.Permalink == o.cfg.Product) && (o.cfg.Seller == "" || s.Seller == o.cfg.Seller) &&
		s.Price > 0 && !s.Preorder && !s.GiftReceiver && (s.FreeTrialEnds == "" || s.Recurring) &&
		s.CreatedAt.Unix() >= o.origin.Load()
}

// isLost reports whether the provider took the money back because of a dispute.
func (s sale) isLost() bool { return s.Chargedback || s.Disputed && !s.DisputeWon }

// refunded returns the refunded amount in US cents. After a partial refund Gumroad reports only the rest, in the
// product's currency. If that is not US dollars, the whole sale counts as refunded: rather too little than too much.
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

// inDollars reports whether the product is priced in US dollars. Older responses have no currency, only a symbol.
func (s sale) inDollars() bool {
	return s.Currency == "usd" || s.Currency == "" && s.CurrencySymbol == "$"
}

// Ids of a sale's refund and dispute records. Gumroad reports the sum of all refunds, and one dispute for each sale.
const (
	refundsID = "refunds"
	disputeID = "dispute"
)

// evidence names a sale at Gumroad.
type evidence struct {
	Provider string `json:"provider"`
	Sale     string `json:"sale"`
	Order    string `json:"order"`
}

// observation returns what the ledger records of a listed sale, and whether anything changed. Refunds and disputes are
// dated by when they were read, so that the latest reading wins: a refund can fail, and a dispute can be won.
func (o *Observer) observation(ctx context.Context, s sale) (observation ledger.Observation, changed bool, err error) {
	known, _, err := o.cfg.Ledger.Receipt(ctx, o.cfg.OfferID, o.cfg.Account, s.ID)
	if err != nil {
		return observation, false, observe.ErrNoLedger
	}
	refunded, lost := s.refunded(), s.isLost()
	if known.EvidenceLevel == ledger.LevelProvider && known.Amount == s.Price && known.Refunded == refunded &&
		(known.Status == ledger.StatusReversed) == lost {
		return observation, false, nil
	}
	observation = ledger.Observation{
		Offer: o.cfg.OfferID, Account: o.cfg.Account, Rail: o.cfg.Rail, ExternalID: s.ID, Via: "link",
		State: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelProvider, Cause: "provider",
		Asset: "USD", Amount: s.Price, USDCents: &s.Price, ValueBasis: ledger.BasisFace,
		Evidence: offer.JSON(evidence{"gumroad", s.ID, s.Order.String()}), OccurredAt: s.CreatedAt.Unix(),
	}
	if known.EvidenceLevel != ledger.LevelProvider && s.CreatedAt.Unix() < o.first.Load() {
		observation.Cause = ledger.CauseBackfilled
	}
	now := o.cfg.Now().Unix()
	if refunded > 0 || known.Refunded > 0 {
		refund := ledger.Return{ID: refundsID, Kind: ledger.ReturnTotal, Amount: refunded, Gone: refunded > 0, At: now}
		observation.Returns = append(observation.Returns, refund)
	}
	if lost || known.Status == ledger.StatusReversed {
		dispute := ledger.Return{ID: disputeID, Kind: ledger.ReturnReversal, Gone: lost, At: now}
		observation.Returns = append(observation.Returns, dispute)
	}
	return observation, true, nil
}
