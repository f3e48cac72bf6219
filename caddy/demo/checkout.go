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

// ServeHTTP shows the checkout, or makes a payment. It rejects a form that another site
// posts.
func (c checkout) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found, ok := c.offers.Load(strings.TrimPrefix(r.URL.Path, "/"))
	if !ok {
		http.NotFound(w, r)
		return
	}
	o := found.(*offer.Offer)
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		show(w, o, http.StatusOK, "")
	case http.MethodPost:
		if http.NewCrossOriginProtection().Check(r) != nil {
			http.Error(w, "This request is from another site. Open the checkout and pay there.", http.StatusForbidden)
			return
		}
		back, err := c.pay(r.Context(), o)
		if err != nil {
			show(w, o, http.StatusBadGateway, err.Error())
			return
		}
		http.Redirect(w, r, back, http.StatusSeeOther)
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		http.Error(w, "This method is not allowed. Use GET to open the checkout, or POST to pay.", http.StatusMethodNotAllowed)
	}
}

// show writes the page. wrong is why a payment failed, or empty.
func show(w http.ResponseWriter, o *offer.Offer, status int, wrong string) {
	var page bytes.Buffer
	if err := checkoutPage.Execute(&page, map[string]any{"Offer": o, "Wrong": wrong, "Style": template.CSS(site.Style)}); err != nil {
		panic("demo: " + err.Error()) // the template fits its data
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	// The form is posted to this page, and the response redirects to the service.
	header.Set("Content-Security-Policy", "default-src 'none'; style-src "+site.Source(site.Style)+
		"; form-action 'self' "+o.BaseURL+"; base-uri 'none'; frame-ancestors 'none'")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // the payer may have disconnected
}

// pay sends the webhook of a payment to the service, as the card processor does. It
// returns the address to which the payer is redirected. A page may show the error: it
// contains no secret.
func (c checkout) pay(ctx context.Context, o *offer.Offer) (back string, err error) {
	now, session := time.Now(), "cs_test_"+rand.Text()
	body := event(o, session, now)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.URL(offer.PathHookCard), bytes.NewReader(body))
	if err != nil {
		return "", errors.New("the address of the service is not a URL; correct base_url, such as http://localhost:8402")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Stripe-Signature", sign(c.built.WebhookSecret, body, now))
	answer, err := c.client.Do(request)
	if err != nil {
		return "", errors.New("the service does not answer; start the demo again")
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the service rejected the webhook with status %d; read its log", answer.StatusCode)
	}
	return o.URL(offer.PathThanks) + "?session_id=" + session, nil
}

// event is the card processor's webhook event for a paid checkout.
func event(o *offer.Offer, session string, now time.Time) []byte {
	body, err := json.Marshal(map[string]any{
		"id": "evt_" + rand.Text(), "object": "event", "api_version": "2026-07-29.dahlia", "type": "checkout.session.completed",
		"created": now.Unix(), "livemode": false, "pending_webhooks": 1,
		"data": map[string]any{"object": map[string]any{
			"id": session, "object": "checkout.session", "mode": "payment", "status": "complete", "payment_status": "paid",
			"amount_total": int64(o.Amount), "currency": "usd", "payment_intent": "pi_" + rand.Text(), "payment_link": offer.DemoLink,
			"livemode": false, "created": now.Unix(), "customer_details": map[string]string{"email": "payer@example.com", "name": "A Payer"},
		}},
	})
	if err != nil {
		panic("demo: " + err.Error()) // texts and numbers
	}
	return body
}

// sign returns the signature header of a delivery, which covers its time and body.
func sign(secret string, body []byte, now time.Time) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", now.Unix(), body)
	return fmt.Sprintf("t=%d,v1=%s", now.Unix(), hex.EncodeToString(mac.Sum(nil)))
}
