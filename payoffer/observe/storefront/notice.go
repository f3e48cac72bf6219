package storefront

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

const (
	// maxPairs bounds the fields of a notice, and maxValue the characters of
	// one that is read.
	maxPairs = 1000
	maxValue = 256
	// maxPrice bounds a price, in US cents: a thousand million dollars.
	maxPrice = 100_000_000_000
)

// notice is what is read of one of the shop's notices. It holds nothing of the
// buyer.
type notice struct {
	// resource is what happened: "sale", "refund", "dispute", "dispute_won";
	// other resources are about subscriptions.
	resource              string
	sale, order, seller   string
	product, shortProduct string
	// price is in US cents, whatever the currency of the product.
	price int64
	at    int64
	// worthless says that no money moved.
	worthless bool
	// What became of the sale by then.
	refunded, disputed, disputeWon bool
}

// noticeFields are the fields that are read. All others are tolerated.
var noticeFields = []string{
	"resource_name", "sale_id", "order_number", "sale_timestamp", "seller_id", "product_id", "short_product_id", "price",
	"test", "is_preorder_authorization", "is_gift_receiver_purchase", "refunded", "disputed", "dispute_won",
}

var (
	saleID      = regexp.MustCompile(`^[A-Za-z0-9_=-]{1,64}$`)
	orderNumber = regexp.MustCompile(`^[1-9][0-9]{0,14}$`)
)

// errShadowed is about a notice that a buyer may have rewritten.
var errShadowed = errors.New("a custom field of the product bears the name of a field of the notice, so that buyers can overwrite that; rename the custom field")

// parseNotice reads a body of a media type. Its errors are sentences that hold
// nothing of the body.
//
// The shop adds each custom field of a product at the top level, in place of
// its own field of that name, and does not escape the names of the product
// address's query, so that a buyer can add fields to a form. Hence a field that
// is read may stand once, and may not be a custom field as well. What is left
// to such a buyer are fields that the notice does not have, as "test", by which
// the notice of the buyer's own sale is ignored; the shop's list has the sale.
func parseNotice(contentType string, body []byte, now time.Time) (notice, error) {
	if len(body) > observe.MaxDelivery {
		return notice{}, errors.New("the body is too large")
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return notice{}, errors.New("the content type cannot be read")
	}
	fields := fieldSet{values: make(map[string]string)}
	switch mediaType {
	case "application/x-www-form-urlencoded":
		err = fields.readForm(string(body))
	case "application/json":
		err = fields.readJSON(body)
	default:
		err = errors.New("the content type is neither a form nor JSON")
	}
	if err != nil {
		return notice{}, err
	}
	return fields.notice(now)
}

// fieldSet gathers the fields of a notice that are read.
type fieldSet struct {
	values map[string]string
	pairs  int
}

// add takes a field if it is one that is read, and refuses a custom field of such
// a name, which is called custom_fields[name].
func (f *fieldSet) add(name, value string) error {
	if f.pairs++; f.pairs > maxPairs {
		return errors.New("the body has too many fields")
	}
	custom, ok := strings.CutPrefix(name, "custom_fields[")
	if ok && slices.Contains(noticeFields, strings.TrimSuffix(custom, "]")) {
		return errShadowed
	}
	if !slices.Contains(noticeFields, name) {
		return nil
	}
	if _, twice := f.values[name]; twice {
		return fmt.Errorf("the field %s stands there twice", name)
	}
	if len(value) > maxValue {
		return fmt.Errorf("the field %s is too long", name)
	}
	f.values[name] = value
	return nil
}

func (f *fieldSet) readForm(body string) error {
	for pair := range strings.SplitSeq(body, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, nameErr := url.QueryUnescape(name)
		value, valueErr := url.QueryUnescape(value)
		if nameErr != nil || valueErr != nil {
			return errors.New("the form is not encoded as one")
		}
		if err := f.add(name, value); err != nil {
			return err
		}
	}
	return nil
}

func (f *fieldSet) readJSON(body []byte) error {
	return members(body, func(name string, value json.RawMessage) error {
		if name == "custom_fields" && value[0] == '{' {
			return members(value, func(name string, _ json.RawMessage) error { return f.add("custom_fields["+name+"]", "") })
		}
		text := string(value)
		switch value[0] {
		case '{', '[':
			if slices.Contains(noticeFields, name) {
				return fmt.Errorf("the field %s is no text, number or boolean", name)
			}
		case '"':
			_ = json.Unmarshal(value, &text) // it was found valid
		case 'n':
			name = "" // null is no field
		}
		return f.add(name, text)
	})
}

// members calls each for the members of a JSON object, in their order and
// however often a name occurs.
func members(object []byte, each func(name string, value json.RawMessage) error) error {
	malformed := errors.New("the body is not a JSON object")
	d := json.NewDecoder(bytes.NewReader(object))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return malformed
	}
	for d.More() {
		var value json.RawMessage
		name, err := d.Token()
		if err != nil || d.Decode(&value) != nil {
			return malformed
		}
		if err := each(name.(string), value); err != nil {
			return err
		}
	}
	_, err := d.Token()
	if _, after := d.Token(); err != nil || after != io.EOF {
		return malformed
	}
	return nil
}

// notice checks the fields.
func (f *fieldSet) notice(now time.Time) (n notice, err error) {
	v := f.values
	n.resource = v["resource_name"]
	switch n.resource {
	case "":
		n.resource = "sale"
	case "sale", "refund", "dispute", "dispute_won":
	default:
		return n, nil // about subscriptions, which have other fields
	}
	n.sale, n.order, n.seller = v["sale_id"], v["order_number"], v["seller_id"]
	n.product, n.shortProduct = v["product_id"], v["short_product_id"]
	n.worthless = v["test"] == "true" || v["is_preorder_authorization"] == "true" || v["is_gift_receiver_purchase"] == "true"
	n.refunded, n.disputed, n.disputeWon = v["refunded"] == "true", v["disputed"] == "true", v["dispute_won"] == "true"
	if !saleID.MatchString(n.sale) {
		return n, errors.New("the field sale_id is missing or no sale's id")
	}
	if !orderNumber.MatchString(n.order) {
		return n, errors.New("the field order_number is missing or no number")
	}
	if n.price, err = strconv.ParseInt(v["price"], 10, 64); err != nil || n.price < 0 || n.price > maxPrice {
		return n, errors.New("the field price is missing or no number of cents")
	}
	at, err := time.Parse(time.RFC3339, v["sale_timestamp"])
	if err != nil || !observe.Plausible(at.Unix(), now) {
		return n, errors.New("the field sale_timestamp is missing or no time between 2000 and now")
	}
	n.at = at.Unix()
	n.worthless = n.worthless || n.price == 0
	return n, nil
}
