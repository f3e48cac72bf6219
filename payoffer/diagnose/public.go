package diagnose

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const (
	// maxBody bounds what is read of a response, in bytes.
	maxBody = 4 << 20
	// maxLinks is how many links are requested at a time.
	maxLinks = 6
)

type response struct {
	status int
	header http.Header
	body   []byte
}

// send sends a request without a body, past every cache.
func (d *diagnosis) send(ctx context.Context, method, address string) (r response, err error) {
	request, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return r, err
	}
	request.Header.Set("Cache-Control", "no-cache")
	request.Header.Set("User-Agent", "caddy-pay-offer-check")
	got, err := d.client.Do(request)
	if err != nil {
		return r, err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(io.LimitReader(got.Body, maxBody))
	return response{got.StatusCode, got.Header, body}, err
}

// service checks that base_url leads to the running server and that no proxy changes its
// answers. The first issue ends it, because it explains the others.
func (c *check) service(ctx context.Context) {
	base := c.Offer.Offer.BaseURL
	host, document := offer.Host(base), c.Offer.Offer.URL(offer.PathDID)
	did, err := c.send(ctx, http.MethodGet, document)
	switch {
	case err != nil:
		c.unreachable(base, err)
	case !c.answered && did.status != http.StatusOK: // not-running explains it
	case did.status >= http.StatusBadGateway && did.status <= http.StatusGatewayTimeout:
		c.found(Unreachable, host, fmt.Sprintf("a proxy at %s answers %d and does not reach the server", host, did.status))
	case !c.isOurs(did):
		c.found(OtherServer, host, fmt.Sprintf("%s answers %d without the keys of the running server", document, did.status))
	case c.quote(ctx):
		c.links(ctx, c.addresses())
	}
}

// isOurs reports whether a response is the DID document of the offer. A running server is
// known by its signing keys, which instances with a shared ledger have in common.
func (c *check) isOurs(r response) bool {
	var document struct {
		ID      string
		Methods []struct{ ID string } `json:"verificationMethod"`
	}
	if r.status != http.StatusOK || json.Unmarshal(r.body, &document) != nil || document.ID != c.Offer.Offer.DID() {
		return false
	}
	if c.running == nil {
		return true
	}
	var keys []string
	for _, method := range document.Methods {
		keys = append(keys, method.ID)
	}
	slices.Sort(keys)
	return slices.Equal(keys, slices.Sorted(slices.Values(c.running.Keys)))
}

// quote reports whether the 402 quote arrives with its headers.
func (c *check) quote(ctx context.Context) bool {
	o := c.Offer.Offer
	at := o.URL(offer.PathSponsor)
	r, err := c.send(ctx, http.MethodPost, at)
	what := ""
	switch {
	case err != nil:
		what = "POST " + at + " fails: " + reason(err)
	case r.status != http.StatusPaymentRequired:
		what = fmt.Sprintf("POST %s answers %d and not 402", at, r.status)
	case len(o.USDC()) > 0 && !isWhole(r.header.Get(x402.HeaderRequired)):
		what = x402.HeaderRequired + " of the quote does not arrive whole"
	case o.Challenges() && !strings.HasPrefix(r.header.Get(mpp.HeaderChallenge), "Payment "):
		what = mpp.HeaderChallenge + " of the quote does not arrive"
	default:
		return true
	}
	c.found(HeadersCut, at, what)
	return false
}

// isWhole reports whether the value of PAYMENT-REQUIRED can be read.
func isWhole(value string) bool {
	text, err := base64.StdEncoding.DecodeString(value)
	return err == nil && json.Valid(text)
}

// site checks that the page of another host is served.
func (c *check) site(ctx context.Context) {
	o := c.Offer.Offer
	if o.SiteURL == o.BaseURL {
		return
	}
	page, err := c.send(ctx, http.MethodGet, o.SitePage())
	switch {
	case err != nil:
		c.unreachable(o.SiteURL, err)
	case !c.answered && page.status >= http.StatusInternalServerError: // not-running explains it
	case page.status >= http.StatusBadRequest:
		c.found(LinkBroken, o.SitePage(), fmt.Sprintf("%s answers %d", o.SitePage(), page.status))
	}
}

// unreachable adds why a request to base_url or site_url failed.
func (c *check) unreachable(origin string, err error) {
	host := offer.Host(origin)
	if invalid := (*tls.CertificateVerificationError)(nil); errors.As(err, &invalid) {
		c.found(CertificateInvalid, host, fmt.Sprintf("the certificate of %s is not trusted: %v", host, invalid.Err))
	} else if c.answered { // else not-running explains it
		c.found(Unreachable, host, host+" does not answer: "+reason(err))
	}
}

// addresses are those that the offer's server answers.
func (c *check) addresses() []string {
	o, all := c.Offer.Offer, slices.Clone(c.Links)
	if o.SiteURL == o.BaseURL {
		all = append(all, o.SitePage())
	}
	if o.Logo != "" {
		all = append(all, o.Logo)
	}
	for _, card := range service.RailsOf[service.Card](c.Settings) {
		if card.WebhookSecret != "" {
			all = append(all, o.URL(offer.PathHookCard))
		}
	}
	return all
}

// checkouts are the hosted checkouts of the offer.
func (c *check) checkouts() (all []string) {
	for _, m := range c.Offer.Offer.Methods(offer.Live{}) {
		if m.Network == offer.Fiat && m.URL != "" {
			all = append(all, m.URL)
		}
	}
	return all
}

// links requests addresses, a few at a time.
func (c *check) links(ctx context.Context, addresses []string) {
	slots := make(chan struct{}, maxLinks)
	var work sync.WaitGroup
	for _, address := range addresses {
		work.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			r, err := c.send(ctx, http.MethodGet, address)
			at := withoutQuery(address)
			if err != nil {
				c.found(LinkBroken, at, at+" does not answer: "+reason(err))
			} else if c.isBroken(address, r.status) {
				c.found(LinkBroken, at, fmt.Sprintf("%s answers %d", at, r.status))
			}
		})
	}
	work.Wait()
}

// isBroken judges the status of an address. Checkouts may refuse software and welcome
// people. A webhook of ours refuses GET itself, and Bitcoin without a rate answers 503,
// which the price sources explain.
func (c *check) isBroken(address string, status int) bool {
	o := c.Offer.Offer
	switch {
	case status == http.StatusNotFound, status == http.StatusGone:
		return true
	case !strings.HasPrefix(address, o.BaseURL+"/"):
		return status >= http.StatusInternalServerError
	case address == o.URL(offer.PathHookCard):
		return status != http.StatusMethodNotAllowed
	case status == http.StatusServiceUnavailable && o.Bitcoin() != nil:
		return !strings.Contains(address, offer.PathMethods+"/"+o.Bitcoin().Name()+".")
	}
	return status >= http.StatusBadRequest && status != http.StatusPaymentRequired && status != http.StatusTooManyRequests
}

// reason says why a request failed. It does not quote the error, which may contain a
// secret address.
func reason(err error) string {
	var timeout net.Error
	var unknown *net.DNSError
	switch {
	case errors.As(err, &unknown):
		return "its name has no address"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "the request timed out"
	}
	return "the connection fails"
}

// withoutQuery is an address without what may be secret.
func withoutQuery(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.RawQuery, u.User, u.Fragment = "", nil, ""
	return u.String()
}
