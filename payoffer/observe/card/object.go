package card

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
)

// The forms of ids and of currencies (ISO 4217); both can be absent.
var idForm, currencyForm = regexp.MustCompile(`^[A-Za-z0-9_]{0,255}$`), regexp.MustCompile(`^([a-z]{3})?$`)

// object has the members that are read of Stripe's objects. They are the same in all API versions.
type object struct {
	Object   string  `json:"object"`
	ID       string  `json:"id"`
	Livemode bool    `json:"livemode"`
	Created  int64   `json:"created"`
	Status   string  `json:"status"`
	Intent   string  `json:"payment_intent"`
	Amount   *amount `json:"amount"`
	Currency string  `json:"currency"` // in upper case after read

	// Of an event.
	Type string `json:"type"`
	Data struct {
		Object jsontext.Value `json:"object"`
	} `json:"data"`

	// Of a checkout session.
	Mode          string  `json:"mode"`
	PaymentLink   string  `json:"payment_link"`
	PaymentStatus string  `json:"payment_status"`
	AmountTotal   *amount `json:"amount_total"`
	Subtotal      *amount `json:"amount_subtotal"`

	// Of a charge.
	Captured       *bool   `json:"captured"`
	AmountCaptured *amount `json:"amount_captured"`
	AmountRefunded *amount `json:"amount_refunded"`

	// Of a dispute: what was withdrawn (negative) and reinstated.
	BalanceTransactions []struct {
		Amount   *int64 `json:"amount"`
		Currency string `json:"currency"`
		Created  int64  `json:"created"`
	} `json:"balance_transactions"`
}

// requireTime refuses an object whose time the processor cannot have meant. What an event reports of a checkout or a charge
// is dated by the event.
func (s scope) requireTime(o *object) error {
	if !observe.Plausible(o.Created, s.now) {
		return malformed("it has no time between 2000 and now")
	}
	return nil
}

// read reads one object. The error is an *unusableError, which names a member and never a value.
func (s scope) read(text []byte) (*object, error) {
	o := new(object)
	err := decode(text, o)
	wrong, named := errors.AsType[*json.SemanticError](err)
	switch {
	case named && wrong.JSONPointer != "":
		return o, malformed("it has a malformed member " + string(wrong.JSONPointer))
	case err != nil:
		return o, malformed("it is not a JSON object")
	case o.ID == "" || !idForm.MatchString(o.ID) || !idForm.MatchString(o.Intent):
		return o, malformed("it has no id, or one that is not of Stripe's form")
	case !currencyForm.MatchString(o.Currency):
		return o, malformed("its currency is not a code of three lower-case letters")
	}
	o.Currency = strings.ToUpper(o.Currency)
	return o, nil
}

// decode reads JSON; the names of members are exact. A payer's name that some program cut in two must not lose a payment.
func decode(text []byte, into any) error {
	return json.Unmarshal(text, into, jsontext.AllowInvalidUTF8(true))
}

// maxAmount is the largest integer that JSON carries exactly everywhere.
const maxAmount = 1<<53 - 1

// amount is in the currency's smallest unit, and at most maxAmount.
type amount int64

func (a *amount) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 53)
	*a = amount(n)
	return err
}

// value is 0 if the amount is absent or null.
func (a *amount) value() int64 {
	if a == nil {
		return 0
	}
	return int64(*a)
}
