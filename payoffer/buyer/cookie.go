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

	"golang.org/x/net/publicsuffix"

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
	all, sets := newJar(), 0
	for _, payment := range paid {
		if payment.addTo(all, t) {
			sets++
		}
	}
	if opened, err := b.openBy(ctx, all, t, p); opened || err != nil {
		return opened, err
	}
	tried := 0
	for _, payment := range slices.Backward(paid) {
		jar := newJar()
		own := payment.addTo(jar, t) && sets > 1 // cookies of a newer payment that was refunded have the same names
		from, err := url.Parse(payment.URL)
		enters := err == nil && payment.AccessURL != "" && payment.PayTo == q.PayTo && site(from) == site(t.url)
		if !own && !enters {
			continue
		}
		if tried++; tried > maxTried {
			break
		}
		if own {
			if opened, err := b.openBy(ctx, jar, t, p); opened || err != nil {
				return opened, err
			}
		}
		if !enters {
			continue
		}
		entered, lines, err := b.enter(ctx, payment.AccessURL, offer.Origin(from), q.page, t)
		if err != nil {
			return false, err
		}
		if len(lines) == 0 {
			continue
		}
		jar.SetCookies(entered, cookiesOf(lines))
		if err := payment.addCookies(entered, lines); err != nil {
			return false, err
		}
		if opened, err := b.openBy(ctx, jar, t, p); opened || err != nil {
			return opened, err
		}
	}
	return false, nil
}

// maxTried is how many of the newest payments are tried alone, because a payer can have thousands.
const maxTried = 10

func newJar() http.CookieJar {
	jar, _ := cookiejar.New(nil) // never fails
	return jar
}

// addTo adds the payment's cookies for the host of a target, and reports whether there are some. Cookies of a domain are not
// sent to its other hosts.
func (s *stored) addTo(jar http.CookieJar, t Target) (some bool) {
	for address, lines := range s.Cookies {
		if from, err := url.Parse(address); err == nil && from.Host == t.url.Host {
			jar.SetCookies(from, cookiesOf(lines))
			some = true
		}
	}
	return some
}

func cookiesOf(lines []string) (cookies []*http.Cookie) {
	for _, line := range lines {
		if cookie, err := http.ParseSetCookie(line); err == nil {
			cookies = append(cookies, cookie)
		}
	}
	return cookies
}

// site is the registrable domain of a URL, or its host without one. What is below it is taken as one seller's.
func site(u *url.URL) string {
	host := strings.ToLower(u.Hostname())
	if strings.HasSuffix(host, ".localhost") { // this machine (RFC 6761)
		return "localhost"
	}
	if domain, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return domain
	}
	return host
}

// openBy requests a target with the cookies of a jar.
func (b *Buyer) openBy(ctx context.Context, jar http.CookieJar, t Target, p *Purchase) (bool, error) {
	if t.cookies = jar.Cookies(t.url); len(t.cookies) == 0 {
		return false, nil
	}
	a, err := b.send(ctx, t, "", payTimeout, maxAnswer)
	switch {
	case err != nil:
		return false, unopened("the seller sent no answer: %w", err)
	case a.status == http.StatusPaymentRequired:
		return false, nil
	case a.status < 200 || a.status >= 300:
		return false, unopened("the answer is %w", errors.New(a.reason()))
	case a.incomplete != nil:
		return false, fmt.Errorf("not paid: an earlier payment opens this URL, and the response is incomplete: %w; run the same command again", a.incomplete)
	}
	p.Payment = &Payment{State: Opened, Method: t.Method, URL: t.URL(), Status: a.status, ContentType: a.header.Get("Content-Type")}
	p.body = a.body
	return true, nil
}

// unopened is the error of a request that would have shown whether an earlier payment opens a target. why has a verb for err.
func unopened(why string, err error) error {
	return fmt.Errorf("not paid: an earlier payment may open this URL, and "+why+"; run the same command again, or add --new to pay", err)
}

// enter exchanges an AccessURL for the cookies of a target's origin, and returns who set them; none if it does not open the
// target. page is the payment page of the target's quote, which knows to which gate the AccessURL is to lead. Requests go only
// to the origin of the payment and then to the target's, because a seller must not lead this machine's requests elsewhere.
func (b *Buyer) enter(ctx context.Context, access, origin, page string, t Target) (entered *url.URL, lines []string, err error) {
	jar := newJar()
	var a *answer
	visit := func(address, origin string) (is bool, err error) {
		u, err := url.Parse(address)
		if err != nil || offer.Origin(u) != origin {
			return false, nil
		}
		a, err = b.send(ctx, Target{Method: http.MethodGet, url: u, cookies: jar.Cookies(u), accept: "text/html"}, "", quoteTimeout, maxQuote)
		switch {
		case err != nil:
			return false, unopened("the seller sent no answer: %w", err)
		case a.status >= 500 || a.status == http.StatusTooManyRequests:
			return false, unopened("the answer is %w", errors.New(a.reason()))
		}
		jar.SetCookies(u, (&http.Response{Header: a.header}).Cookies())
		entered = u
		return true, nil
	}
	if _, err := visit(page, origin); err != nil {
		return nil, nil, err
	}
	if is, err := visit(access, origin); !is {
		return nil, nil, err
	}
	next, err := entered.Parse(a.header.Get("Location"))
	if err != nil {
		return nil, nil, nil
	}
	if is, err := visit(next.String(), t.Origin()); !is {
		return nil, nil, err
	}
	return entered, a.cookieLines(), nil
}

// stored is a payment and its file.
type stored struct {
	Payment
	file string
}

// addCookies stores more cookies of what a payment opens.
func (s *stored) addCookies(from *url.URL, lines []string) error {
	if s.Cookies == nil {
		s.Cookies = make(map[string][]string)
	}
	s.Cookies[from.Scheme+"://"+from.Host+from.Path] = lines
	return storePayment(s.file, &s.Payment)
}

// earlier are the payer's payments to all sellers, the newest last.
func (p *Purchase) earlier() (paid []stored, err error) {
	files, err := filepath.Glob(filepath.Join(filepath.Dir(p.folder), "*", "*.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		payment := stored{file: file}
		text, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(text, &payment.Payment) != nil {
			return nil, errors.Join(fmt.Errorf("not paid: %s cannot be read, and the payment in it may open this URL; move the file away", file), err)
		}
		if strings.EqualFold(payment.Payer, p.payer) {
			paid = append(paid, payment)
		}
	}
	slices.SortFunc(paid, func(a, b stored) int { return a.SignedAt.Compare(b.SignedAt) })
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
