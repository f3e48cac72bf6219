package payoffertest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"
)

// processorOpened is how long before it is completed a checkout is opened, in
// seconds.
const processorOpened = 90

// ProcessorReply scripts how the processor's API fails. The zero value answers.
type ProcessorReply struct {
	// Status is the HTTP status; 0 is 200.
	Status int
	// Location is where a redirect leads.
	Location string
	// Body is sent instead of the answer, unless empty.
	Body string
	// Unreachable ends the call without an answer.
	Unreachable bool
}

// Processor stands in for the card processor (Stripe): it makes payments
// through payment links, and tells of them by signed events and by the pages of
// its API. It is an http.RoundTripper, so that a test can own the time between
// the two.
type Processor struct {
	key string
	now func() time.Time

	mu       sync.Mutex
	reply    ProcessorReply
	calls    []string
	made     int
	events   []processorObject
	sessions []processorObject
	refunds  []processorObject
	disputes []processorObject
	failed   map[string]bool // delayed payments that failed, by their intents
	charges  map[string]processorObject
	prices   []processorObject // of the items of every payment link
	refused  string
}

// processorObject is an object of the API.
type processorObject = map[string]any

// NewProcessor returns a processor in live mode whose API asks for key, and
// whose clock is now.
func NewProcessor(key string, now func() time.Time) *Processor {
	return &Processor{key: key, now: now, failed: map[string]bool{}, charges: map[string]processorObject{},
		prices: []processorObject{{"currency": "usd", "unit_amount": 4200, "custom_unit_amount": nil}}}
}

// SetReply scripts every answer of the API from now on.
func (p *Processor) SetReply(reply ProcessorReply) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reply = reply
}

// Refuse makes the API refuse the calls whose path begins with a text, as
// for a key without the permission; empty refuses none.
func (p *Processor) Refuse(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = path
}

// SetPrices sets the prices of the items of every payment link, as objects
// of the API in JSON.
func (p *Processor) SetPrices(prices ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prices = nil
	for _, price := range prices {
		var object processorObject
		if err := json.Unmarshal([]byte(price), &object); err != nil {
			panic("payoffertest: " + err.Error())
		}
		p.prices = append(p.prices, object)
	}
}

// Calls are the paths and queries that the API was asked for.
func (p *Processor) Calls() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.calls...)
}

// Pay completes a checkout of a payment link, of an amount in US cents, and
// returns the payment intent. A delayed payment stays unpaid until Settle or
// Fail.
func (p *Processor) Pay(link string, cents int64, delayed bool) (intent string) {
	return p.PayIn("usd", link, cents, delayed)
}

// PayIn is Pay in another currency, of an amount in its smallest unit.
func (p *Processor) PayIn(currency, link string, amount int64, delayed bool) (intent string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.checkout(currency, link, amount, !delayed, amount)
}

// PayDiscounted is Pay with a discount, in US cents.
func (p *Processor) PayDiscounted(link string, cents, discount int64) (intent string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	intent = p.checkout("usd", link, cents-discount, true, cents-discount)
	p.sessions[len(p.sessions)-1]["amount_subtotal"] = cents
	p.events = p.events[:len(p.events)-1]
	p.tell("checkout.session.completed", p.sessions[len(p.sessions)-1])
	return intent
}

// Authorise completes a checkout whose money is taken by Capture alone.
func (p *Processor) Authorise(link string, cents int64) (intent string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.checkout("usd", link, cents, false, 0)
}

// Capture takes up to the amount that was authorised; the rest is refunded.
func (p *Processor) Capture(intent string, cents int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	find(p.sessions, "payment_intent", intent)["payment_status"] = "paid"
	charge := p.charges[intent]
	charge["amount_captured"], charge["captured"] = cents, true
	if left := charge["amount"].(int64) - cents; left > 0 {
		p.refund(intent, left, "succeeded")
	}
	p.tell("charge.captured", p.charge(intent))
}

func (p *Processor) checkout(currency, link string, amount int64, paid bool, captured int64) (intent string) {
	intent = p.id("pi")
	session := processorObject{
		"id": p.id("cs_live"), "object": "checkout.session", "mode": "payment", "status": "complete",
		"payment_status": "unpaid", "amount_subtotal": amount, "amount_total": amount, "currency": currency, "payment_intent": intent,
		"payment_link": link, "livemode": true, "created": p.now().Unix() - processorOpened,
		"customer_details": processorObject{"email": "payer@example.com", "name": "A Payer"},
	}
	if paid {
		session["payment_status"] = "paid"
	}
	p.charges[intent] = processorObject{
		"id": "ch_" + intent[3:], "object": "charge", "payment_intent": intent, "currency": currency, "livemode": true,
		"created": p.now().Unix(), "amount": amount, "amount_captured": captured, "captured": captured > 0,
	}
	p.sessions = append(p.sessions, session)
	p.tell("checkout.session.completed", session)
	return intent
}

// Settle makes the money of a delayed payment arrive.
func (p *Processor) Settle(intent string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	session := find(p.sessions, "payment_intent", intent)
	session["payment_status"] = "paid"
	p.tell("checkout.session.async_payment_succeeded", session)
}

// Fail makes a delayed payment fail.
func (p *Processor) Fail(intent string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed[intent] = true
	p.tell("checkout.session.async_payment_failed", find(p.sessions, "payment_intent", intent))
}

// Refund gives an amount in US cents back, with the status succeeded or
// pending, and returns the refund's id.
func (p *Processor) Refund(intent string, cents int64, status string) (id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refund(intent, cents, status)
}

func (p *Processor) refund(intent string, cents int64, status string) (id string) {
	refund := processorObject{
		"id": p.id("re"), "object": "refund", "amount": cents, "currency": p.charges[intent]["currency"], "payment_intent": intent,
		"charge": "ch_" + intent[3:], "status": status, "created": p.now().Unix(),
	}
	p.refunds = append(p.refunds, refund)
	p.tell("refund.created", refund)
	p.tell("charge.refunded", p.charge(intent))
	return refund["id"].(string)
}

// UpdateRefund moves a refund on, to succeeded, failed or canceled.
func (p *Processor) UpdateRefund(id, status string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	refund := find(p.refunds, "id", id)
	refund["status"] = status
	p.tell("refund.updated", refund)
	if status == "failed" {
		p.tell("refund.failed", refund)
	}
}

// charge is the charge of a payment, with the sum of its refunds.
func (p *Processor) charge(intent string) processorObject {
	charge := maps.Clone(p.charges[intent])
	refunded := int64(0)
	for _, refund := range p.refunds {
		if refund["payment_intent"] == intent && refund["status"] != "failed" && refund["status"] != "canceled" {
			refunded += refund["amount"].(int64)
		}
	}
	charge["amount_refunded"] = refunded
	return charge
}

// Dispute opens a dispute over the whole payment and returns its id. It takes
// the money at once, unless it is an inquiry.
func (p *Processor) Dispute(intent string, inquiry bool) (id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	charge := p.charges[intent]
	return p.dispute(intent, charge["currency"].(string), charge["amount"].(int64), inquiry)
}

// DisputePart is Dispute over a part of the payment, in a currency.
func (p *Processor) DisputePart(intent, currency string, amount int64) (id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dispute(intent, currency, amount, false)
}

func (p *Processor) dispute(intent, currency string, amount int64, inquiry bool) (id string) {
	dispute := processorObject{
		"id": p.id("dp"), "object": "dispute", "payment_intent": intent, "charge": "ch_" + intent[3:], "amount": amount, "currency": currency,
		"status": "needs_response", "created": p.now().Unix(), "balance_transactions": []processorObject{},
	}
	if inquiry {
		dispute["status"] = "warning_needs_response"
	}
	p.disputes = append(p.disputes, dispute)
	p.tell("charge.dispute.created", dispute)
	if !inquiry {
		p.transfer(dispute, -amount)
		p.tell("charge.dispute.funds_withdrawn", dispute)
	}
	return dispute["id"].(string)
}

// CloseDispute ends a dispute: won gives the money back.
func (p *Processor) CloseDispute(id string, won bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	dispute := find(p.disputes, "id", id)
	dispute["status"] = "lost"
	if won {
		dispute["status"] = "won"
		p.transfer(dispute, dispute["amount"].(int64))
		p.tell("charge.dispute.funds_reinstated", dispute)
	}
	p.tell("charge.dispute.closed", dispute)
}

// transfer books what a dispute takes, or gives back, of the account, which is
// kept in dollars: another currency is worth the same here.
func (p *Processor) transfer(dispute processorObject, amount int64) {
	dispute["balance_transactions"] = append(dispute["balance_transactions"].([]processorObject), processorObject{
		"id": p.id("txn"), "object": "balance_transaction", "amount": amount, "currency": "usd", "fee": 1500, "created": p.now().Unix(),
	})
}

// Events are the bodies of all events so far, oldest first, as a webhook
// endpoint gets them.
func (p *Processor) Events() [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	var bodies [][]byte
	for _, event := range p.events {
		bodies = append(bodies, encodeObject(event))
	}
	return bodies
}

// SignDelivery is the header Stripe-Signature of a delivery that is sent at a
// time; several secrets sign it during a rotation.
func SignDelivery(body []byte, at time.Time, secrets ...string) string {
	header := "t=" + strconv.FormatInt(at.Unix(), 10)
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
		header += ",v1=" + hex.EncodeToString(mac.Sum(nil))
	}
	return header
}

// tell keeps an event with the object as it is now.
func (p *Processor) tell(kind string, object processorObject) {
	p.events = append(p.events, processorObject{
		"id": p.id("evt"), "object": "event", "api_version": "2026-07-29.dahlia", "type": kind,
		"created": p.now().Unix(), "livemode": true, "pending_webhooks": 1,
		"data": processorObject{"object": json.RawMessage(encodeObject(object))},
	})
}

func (p *Processor) id(prefix string) string {
	p.made++
	return fmt.Sprintf("%s_%06d", prefix, p.made)
}

func find(objects []processorObject, member string, value any) processorObject {
	for _, object := range objects {
		if object[member] == value {
			return object
		}
	}
	panic(fmt.Sprintf("payoffertest: no object whose %s is %v", member, value))
}

func encodeObject(object processorObject) []byte {
	encoded, err := json.Marshal(object)
	if err != nil {
		panic("payoffertest: encode an object: " + err.Error())
	}
	return encoded
}
