package demo

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/site"
)

//go:embed checkout.html
var checkoutHTML string

var checkoutPage = template.Must(template.New("checkout").Parse(checkoutHTML))

// checkout is the page of the card processor, for each offer at its host.
type checkout struct{ *sandbox }

// payment is a payment at the checkout, with the ids of its session and of its payment intent.
type payment struct {
	session, intent string
	amount          offer.USD
}

// ServeHTTP shows the checkout, or does what a button says. It rejects a form that another
// site posts.
func (c checkout) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found, ok := c.offers.Load(strings.TrimPrefix(r.URL.Path, "/"))
	if !ok {
		http.NotFound(w, r)
		return
	}
	o := found.(*offer.Offer)
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		c.show(w, o, http.StatusOK, "")
		return
	case http.MethodPost:
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		http.Error(w, "This method is not allowed. Use GET to open the checkout, or POST to pay.", http.StatusMethodNotAllowed)
		return
	}
	if http.NewCrossOriginProtection().Check(r) != nil {
		http.Error(w, "This request is from another site. Open the checkout and pay there.", http.StatusForbidden)
		return
	}
	var p payment
	var err error
	switch r.PostFormValue("do") {
	case "pay":
		p, err = c.pay(r.Context(), o)
	case "later":
		p, err = c.payLater(r.Context(), o)
	case "refund":
		p, err = c.refund(r.Context(), o)
	case "decline":
		c.show(w, o, http.StatusOK, "The card was declined. Nothing was paid.")
		return
	default:
		http.Error(w, "This is not a button of the checkout. Open the checkout and pay there.", http.StatusBadRequest)
		return
	}
	if err != nil {
		c.show(w, o, http.StatusBadGateway, "This did not work: "+err.Error()+".")
		return
	}
	http.Redirect(w, r, o.URL(offer.PathThanks)+"?session_id="+p.session, http.StatusSeeOther)
}

// show writes the page. note is what happened to the payer's last attempt, or empty.
func (c checkout) show(w http.ResponseWriter, o *offer.Offer, status int, note string) {
	_, paid := c.paid.Load(o.BaseURL)
	style := site.Style + site.Brand(o)
	var page bytes.Buffer
	if err := checkoutPage.Execute(&page, map[string]any{"Offer": o, "Note": note, "Paid": paid, "Style": template.CSS(style)}); err != nil {
		panic("demo: " + err.Error()) // the template fits its data
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	// The form is posted to this page, and the response redirects to the service.
	header.Set("Content-Security-Policy", "default-src 'none'; style-src "+site.Source(style)+
		"; form-action 'self' "+o.BaseURL+"; base-uri 'none'; frame-ancestors 'none'")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // the payer may have disconnected
}

// pay makes a payment that arrives at once.
func (c checkout) pay(ctx context.Context, o *offer.Offer) (payment, error) {
	p := newPayment(o)
	return p, c.settle(ctx, o, p, "checkout.session.completed")
}

// payLater makes a payment by a method that takes a minute, as a bank debit takes days.
func (c checkout) payLater(ctx context.Context, o *offer.Offer) (payment, error) {
	p := newPayment(o)
	err := c.send(ctx, o, "checkout.session.completed", p.checkout("unpaid"))
	if err == nil {
		c.inAMinute(func() { _ = c.settle(context.Background(), o, p, "checkout.session.async_payment_succeeded") }) // or the service ended
	}
	return p, err
}

// settle reports that the money of a payment has arrived. Then it can be refunded.
func (c checkout) settle(ctx context.Context, o *offer.Offer, p payment, kind string) error {
	err := c.send(ctx, o, kind, p.checkout("paid"))
	if err == nil {
		c.paid.Store(o.BaseURL, p)
	}
	return err
}

// refund refunds the last payment in full.
func (c checkout) refund(ctx context.Context, o *offer.Offer) (payment, error) {
	last, found := c.paid.LoadAndDelete(o.BaseURL)
	if !found {
		return payment{}, errors.New("there is no payment to refund")
	}
	p := last.(payment)
	err := c.send(ctx, o, "refund.created", map[string]any{
		"id": "re_" + rand.Text(), "object": "refund", "status": "succeeded", "amount": int64(p.amount), "currency": "usd",
		"payment_intent": p.intent, "created": time.Now().Unix(),
	})
	if err != nil {
		c.paid.Store(o.BaseURL, p)
	}
	return p, err
}

func newPayment(o *offer.Offer) payment {
	return payment{"cs_test_" + rand.Text(), "pi_" + rand.Text(), o.Amount}
}

// checkout is the card processor's object of the checkout session: "paid", or "unpaid" until the money arrives.
func (p payment) checkout(status string) map[string]any {
	return map[string]any{
		"id": p.session, "object": "checkout.session", "mode": "payment", "status": "complete", "payment_status": status,
		"amount_total": int64(p.amount), "currency": "usd", "payment_intent": p.intent, "payment_link": offer.DemoLink,
		"livemode": false, "created": time.Now().Unix(), "customer_details": map[string]string{"email": "payer@example.com", "name": "A Payer"},
	}
}

// send sends the signed webhook of an event to the service, as the card processor does. A page
// may show the error: it contains no secret.
func (c checkout) send(ctx context.Context, o *offer.Offer, kind string, object map[string]any) error {
	now := time.Now()
	body, err := json.Marshal(map[string]any{
		"id": "evt_" + rand.Text(), "object": "event", "api_version": "2026-07-29.dahlia", "type": kind,
		"created": now.Unix(), "livemode": false, "pending_webhooks": 1, "data": map[string]any{"object": object},
	})
	if err != nil {
		panic("demo: " + err.Error()) // texts and numbers
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.URL(offer.PathHookCard), bytes.NewReader(body))
	if err != nil {
		return errors.New("the address of the service is not a URL; correct base_url, such as http://localhost:8402")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Stripe-Signature", sign(c.built.WebhookSecret, body, now))
	answer, err := c.client.Do(request)
	if err != nil {
		return errors.New("the service does not answer; start the demo again")
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the service rejected the webhook with status %d; read its log", answer.StatusCode)
	}
	return nil
}

// sign returns the signature header of a delivery, which covers its time and body.
func sign(secret string, body []byte, now time.Time) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", now.Unix(), body)
	return fmt.Sprintf("t=%d,v1=%s", now.Unix(), hex.EncodeToString(mac.Sum(nil)))
}
