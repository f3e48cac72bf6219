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
)

// Open requests a target without a payment, with the cookies of what the payer paid to its
// seller before: one payment may open several URLs. It reports whether they open this one.
// The purchase then has the content, which is not stored. Unless the seller asks for a
// payment in spite of them, nothing may be paid: the access may exist.
func (b *Buyer) Open(ctx context.Context, t Target, p *Purchase) (bool, error) {
	cookies, err := p.cookies(t)
	if err != nil || len(cookies) == 0 {
		return false, err
	}
	t.cookies = cookies
	a, err := b.send(ctx, t, "", payTimeout, maxAnswer)
	switch {
	case err != nil:
		return false, fmt.Errorf("not paid: an earlier payment may open this URL, and the seller sent no answer: %w; run the same command again", err)
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

// cookies are those of the payer's payments that are for a target, the newest of each name.
func (p *Purchase) cookies(t Target) ([]*http.Cookie, error) {
	files, err := filepath.Glob(filepath.Join(filepath.Dir(p.folder), "*", "*.json"))
	if err != nil {
		return nil, err
	}
	var paid []Payment
	for _, file := range files {
		var payment Payment
		text, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(text, &payment) != nil {
			return nil, errors.Join(fmt.Errorf("not paid: %s cannot be read, and the payment in it may open this URL; move the file away", file), err)
		}
		if len(payment.Cookies) > 0 && strings.EqualFold(payment.Payer, p.payer) {
			paid = append(paid, payment)
		}
	}
	slices.SortFunc(paid, func(a, b Payment) int { return a.SignedAt.Compare(b.SignedAt) })
	jar, _ := cookiejar.New(nil) // never fails
	for _, payment := range paid {
		from, err := url.Parse(payment.URL)
		if err != nil || from.Host != t.url.Host {
			continue // cookies of a domain are not sent to its other hosts
		}
		for _, line := range payment.Cookies {
			if cookie, err := http.ParseSetCookie(line); err == nil {
				jar.SetCookies(from, []*http.Cookie{cookie})
			}
		}
	}
	return jar.Cookies(t.url), nil
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
