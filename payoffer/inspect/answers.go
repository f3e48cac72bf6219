package inspect

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/desk"
	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const (
	// maxAnswer bounds what is read of an answer, in bytes: none of ours is as large.
	maxAnswer = 4 << 20
	// atOnce is how many links are asked for at a time.
	atOnce = 6
)

// answer is what came back of a call.
type answer struct {
	status int
	header http.Header
	body   []byte
	tls    *tls.ConnectionState
	took   time.Duration
}

// exchange asks one of our hosts, past every cache. The token goes to that of base_url
// alone: whoever has it can tell the running server of requests that nobody made.
func (i *inspection) exchange(ctx context.Context, method, address string) (a answer, err error) {
	request, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return a, err
	}
	if strings.HasPrefix(address, i.Offer.Offer.BaseURL+"/") {
		request.Header.Set(service.HeaderSounding, i.Token)
	}
	request.Header.Set("Cache-Control", "no-cache")
	request.Header.Set("Accept-Encoding", "identity") // a compressed answer has the tag of another body
	request.Header.Set("User-Agent", "caddy-pay-offer-check")
	begun := time.Now()
	response, err := i.client.Do(request)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	a = answer{status: response.StatusCode, header: response.Header, tls: response.TLS}
	a.body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	a.took = time.Since(begun)
	return a, err
}

// quote looks whether the quote of the payable address arrives whole, and reports whether
// it does.
func (i *inspection) quote(a answer, err error, arrivals []desk.Arrival) (whole bool) {
	o := i.Offer.Offer
	at := o.URL(offer.PathSponsor)
	posted := slices.ContainsFunc(arrivals, func(a desk.Arrival) bool { return a.Method == http.MethodPost })
	said := fmt.Sprintf("answered with %d", a.status)
	if err != nil {
		said = "cut off: " + failure(err)
	}
	switch quoted := err == nil && a.status == http.StatusPaymentRequired; {
	case !quoted && !posted:
		i.found(PostRefused, at, "POST "+at+" does not arrive at the server and is "+said)
	case !quoted:
		i.found(HeadersCut, at, "POST "+at+" arrives at the server, and its quote is "+said)
	case len(o.USDC()) > 0 && !isWhole(a.header.Get(x402.HeaderRequired)):
		i.found(HeadersCut, at, x402.HeaderRequired+" of the quote does not arrive whole")
	case o.Challenges() && !strings.HasPrefix(a.header.Get(mpp.HeaderChallenge), "Payment "):
		i.found(HeadersCut, at, mpp.HeaderChallenge+" of the quote does not arrive")
	default:
		return true
	}
	return false
}

// isWhole reports whether the value of PAYMENT-REQUIRED can be read.
func isWhole(value string) bool {
	text, err := base64.StdEncoding.DecodeString(value)
	return err == nil && json.Valid(text)
}

// links asks for every address of ours, but for quotes where it is found already that
// they do not arrive.
func (i *inspection) links(ctx context.Context, quotes bool) {
	o, links := i.Offer.Offer, slices.Clone(i.Links)
	if !quotes {
		links = slices.DeleteFunc(links, func(address string) bool {
			return address == o.URL(offer.PathOffer) || address == o.URL(offer.PathQuote)
		})
	}
	if o.SiteURL == o.BaseURL {
		links = append(links, o.SitePage())
	}
	if o.Logo != "" {
		links = append(links, o.Logo)
	}
	places := make(chan struct{}, atOnce)
	var work sync.WaitGroup
	var counting sync.Mutex
	var changed []string
	for _, address := range links {
		work.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			a, err := i.exchange(ctx, http.MethodGet, address)
			if err != nil || a.status >= http.StatusInternalServerError { // once may be chance
				a, err = i.exchange(ctx, http.MethodGet, address)
			}
			i.link(address, a, err)
			counting.Lock()
			defer counting.Unlock()
			if err == nil && altered(a) {
				changed = append(changed, withoutQuery(address))
			}
			i.looked.Answers++
			i.looked.LargestBytes = max(i.looked.LargestBytes, len(a.body))
			i.looked.SlowestMillis = max(i.looked.SlowestMillis, a.took.Milliseconds())
		})
	}
	work.Wait()
	if len(changed) > 0 {
		at := slices.Min(changed)
		i.found(AnswerAltered, at, fmt.Sprintf("the bodies of %d answers are not those that their entity tags are of, among them that of %s", len(changed), at))
	}
}

// link judges the answer of an address of ours. One that is asked too often for the
// proxy in front is not broken, and the rail without a rate is found by its sources.
func (i *inspection) link(address string, a answer, err error) {
	noRate := a.status == http.StatusServiceUnavailable && i.Offer.Offer.Bitcoin() != nil &&
		strings.Contains(address, offer.PathMethods+"/"+i.Offer.Offer.Bitcoin().Name()+".")
	at := withoutQuery(address)
	switch {
	case err != nil:
		i.found(LinkBroken, at, at+" does not answer: "+failure(err))
	case a.status == http.StatusPaymentRequired, a.status == http.StatusTooManyRequests, noRate:
	case a.status >= http.StatusBadRequest:
		i.found(LinkBroken, at, fmt.Sprintf("%s answers %d", at, a.status))
	}
}

// ownTag is the form of an entity tag of ours: half of the body's SHA-256.
var ownTag = regexp.MustCompile(`^"[A-Za-z0-9_-]{22}"$`)

// altered reports whether a body is not the one that was sent.
func altered(a answer) bool {
	tag := a.header.Get("Etag")
	sum := sha256.Sum256(a.body)
	return a.status == http.StatusOK && ownTag.MatchString(tag) && strings.Trim(tag, `"`) != base64.RawURLEncoding.EncodeToString(sum[:16])
}

// elsewhere asks for what is published and stands with others: the checkout and the
// storefronts.
func (i *inspection) elsewhere(ctx context.Context) {
	o := i.Offer.Offer
	published := map[string]string{o.Card.URL: o.Card.Name()}
	for _, shop := range i.Storefronts {
		for _, m := range shop.Rail.Methods(o, offer.Live{}) {
			published[m.URL] = shop.Rail.Name()
		}
	}
	client := http.Client{Transport: i.Transport, Timeout: callPatience}
	var work sync.WaitGroup
	for address, rail := range published {
		work.Go(func() {
			status, err := ask(ctx, &client, http.MethodHead, address)
			if err != nil || isGone(status) { // some know GET alone
				status, err = ask(ctx, &client, http.MethodGet, address)
			}
			at := withoutQuery(address)
			switch {
			case err != nil:
				i.found(LinkBroken, at, "the address of "+rail+" does not answer: "+failure(err))
			case isGone(status):
				i.found(LinkBroken, at, fmt.Sprintf("the address of %s answers %d", rail, status))
			}
		})
	}
	work.Wait()
}

// isGone reports whether a status says that there is nothing for anybody. Some refuse
// programs, and would not refuse a person.
func isGone(status int) bool {
	return status == http.StatusNotFound || status == http.StatusGone || status >= http.StatusInternalServerError
}

func ask(ctx context.Context, client *http.Client, method, address string) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
