package buyer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Open requests a target without a payment, with the cookies of what the payer paid to its
// seller before: one payment may open several URLs. It reports whether they open this one.
// The purchase then has the content, which is not stored. Unless the seller asks for a
// payment in spite of them, nothing may be paid: the access may exist.
func (b *Buyer) Open(ctx context.Context, t Target, q *Quote, p *Purchase) (bool, error) {
	paid, err := p.earlier()
	if err != nil {
		return false, err
	}
	jar, _ := cookiejar.New(nil) // never fails
	for _, payment := range paid {
		if from, err := url.Parse(payment.URL); err == nil && from.Host == t.url.Host { // cookies of a domain are not sent to its other hosts
			for _, line := range payment.Cookies {
				if cookie, err := http.ParseSetCookie(line); err == nil {
					jar.SetCookies(from, []*http.Cookie{cookie})
				}
			}
		}
	}
	if opened, err := b.openBy(ctx, jar, t, p); opened || err != nil {
		return opened, err
	}
	for _, payment := range slices.Backward(paid) {
		if payment.AccessURL != "" && payment.PayTo == q.PayTo {
			if err := b.enter(ctx, jar, payment, t); err != nil {
				return false, err
			}
			return b.openBy(ctx, jar, t, p)
		}
	}
	return false, nil
}

// openBy requests a target with the cookies of a jar.
func (b *Buyer) openBy(ctx context.Context, jar http.CookieJar, t Target, p *Purchase) (bool, error) {
	if t.cookies = jar.Cookies(t.url); len(t.cookies) == 0 {
		return false, nil
	}
	a, err := b.send(ctx, t, "", payTimeout, maxAnswer)
	switch {
	case err != nil:
		return false, unopened(err)
	case a.status == http.StatusPaymentRequired:
		return false, nil
	case a.status < 200 || a.status >= 300:
		return false, fmt.Errorf("not paid: an earlier payment may open this URL, and the answer is %s; run the same command again, or add --new to pay", a.reason())
	case a.incomplete != nil:
		return false, fmt.Errorf("not paid: an earlier payment opens this URL, and the response is incomplete: %w; run the same command again", a.incomplete)
	}
	p.Payment = &Payment{State: Opened, Method: t.Method, URL: t.URL(), Status: a.status, ContentType: a.header.Get("Content-Type")}
	p.body = a.body
	return true, nil
}

func unopened(err error) error {
	return fmt.Errorf("not paid: an earlier payment may open this URL, and the seller sent no answer: %w; run the same command again", err)
}

// enter collects the cookies of the AccessURL of a payment and of the gate to which it leads. It requests nothing but the
// origins of the payment and of the target, because a seller must not lead this machine's requests elsewhere.
func (b *Buyer) enter(ctx context.Context, jar http.CookieJar, payment Payment, t Target) error {
	next, err := url.Parse(payment.URL)
	if err != nil {
		return nil // nor has it cookies
	}
	allowed := []string{offer.Origin(next), t.Origin()}
	link := payment.AccessURL
	for range 2 {
		if next, err = next.Parse(link); err != nil || !slices.Contains(allowed, offer.Origin(next)) {
			return nil
		}
		a, err := b.send(ctx, Target{Method: http.MethodGet, url: next, cookies: jar.Cookies(next)}, "", quoteTimeout, maxQuote)
		switch {
		case err != nil:
			return unopened(err)
		case a.status >= 500 || a.status == http.StatusTooManyRequests:
			return unopened(errors.New(a.reason()))
		}
		jar.SetCookies(next, (&http.Response{Header: a.header}).Cookies())
		if link = a.header.Get("Location"); link == "" {
			return nil
		}
	}
	return nil
}

// earlier are the payer's payments to all sellers, the newest last.
func (p *Purchase) earlier() (paid []Payment, err error) {
	files, err := filepath.Glob(filepath.Join(filepath.Dir(p.folder), "*", "*.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		var payment Payment
		text, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(text, &payment) != nil {
			return nil, errors.Join(fmt.Errorf("not paid: %s cannot be read, and the payment in it may open this URL; move the file away", file), err)
		}
		if strings.EqualFold(payment.Payer, p.payer) {
			paid = append(paid, payment)
		}
	}
	slices.SortFunc(paid, func(a, b Payment) int { return a.SignedAt.Compare(b.SignedAt) })
	return paid, nil
}

// cookieLines are the cookies of an answer. Each expires at a time instead of after one.
func (a *answer) cookieLines() (lines []string) {
	for _, cookie := range (&http.Response{Header: a.header}).Cookies() {
		if cookie.MaxAge > 0 {
			cookie.Expires, cookie.MaxAge = time.Now().Add(time.Duration(cookie.MaxAge)*time.Second), 0
		}
		if line := cookie.String(); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
