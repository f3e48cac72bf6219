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
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/payoffer/caddy-pay-offer/payoffer/mpp"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// maxBody bounds how much of a response is read, in bytes. maxLinks bounds concurrent requests to links.
// connections are how many requests look for a second process at the port of the server.
const maxBody, maxLinks, connections = 4 << 20, 6, 8

// send sends a request without a body, on a connection of its own, and tells caches not to answer it.
func (d *diagnosis) send(ctx context.Context, method, address string, cookies ...*http.Cookie) (response *http.Response, body []byte, err error) {
	return d.sendAccepting(ctx, "", method, address, cookies...)
}

// sendAccepting is send with the header Accept.
func (d *diagnosis) sendAccepting(ctx context.Context, accept, method, address string, cookies ...*http.Cookie) (response *http.Response, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil {
		return nil, nil, err
	}
	request.Header = http.Header{"Cache-Control": {"no-cache"}, "User-Agent": {"caddy-pay-offer-check"}}
	if accept != "" {
		request.Header.Set("Accept", accept)
	}
	for _, cookie := range cookies {
		request.AddCookie(cookie)
	}
	request.Close = true
	if response, err = d.client.Do(request); err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(io.LimitReader(response.Body, maxBody))
	return response, body, err
}

// service checks that base_url leads to the running server and that no proxy changes its
// responses. It stops at the first issue, because later ones would have the same cause.
func (c *check) service(ctx context.Context) {
	base := c.Offer.Offer.BaseURL
	host, document := offer.Host(base), c.Offer.Offer.URL(offer.PathDID)
	var did *http.Response
	var err error
	strange := 0 // answers of other servers; did and err are the last one
	for i := 0; i < connections && err == nil; i++ {
		r, body, failed := c.send(ctx, http.MethodGet, document)
		if failed != nil || r.StatusCode != http.StatusOK || !c.isOurs(body) {
			did, err, strange = r, failed, strange+1
		}
	}
	switch {
	case strange == 0:
		if c.quote(ctx) && c.hasSameTerms(ctx) {
			c.headers(ctx)
			c.links(ctx, c.addresses())
		}
	case err != nil:
		c.unreachable(base, err)
	case !c.answered && did.StatusCode != http.StatusOK: // NotRunning explains it
	case did.StatusCode >= http.StatusBadGateway && did.StatusCode <= http.StatusGatewayTimeout:
		c.addIssue(Unreachable, host, fmt.Sprintf("a proxy at %s answers %d and does not reach the server", host, did.StatusCode))
	case strange < connections:
		c.addIssue(SharedPort, host, fmt.Sprintf("%d of %d connections to %s reach another server than the running one", strange, connections, host))
	case isCaddy(did.Header):
		c.addIssue(OtherHandler, host, fmt.Sprintf("%s answers %d from Caddy, and not from pay_offer", document, did.StatusCode))
	default:
		c.addIssue(OtherServer, host,
			fmt.Sprintf("%s answers %d without the keys of the running server", document, did.StatusCode))
	}
}

// isCaddy reports whether another handler of Caddy answered than pay_offer, which links to a checkout.
func isCaddy(h http.Header) bool {
	return strings.Contains(h.Get("Server")+h.Get("Via"), "Caddy") && !strings.Contains(h.Get("Link"), `rel="payment"`)
}

// isOurs reports whether body is the DID document of the offer, with the signing keys of the
// running server. Instances that share a ledger have the same keys.
func (c *check) isOurs(body []byte) bool {
	var document struct {
		ID      string
		Methods []struct{ ID string } `json:"verificationMethod"`
	}
	if json.Unmarshal(body, &document) != nil || document.ID != c.Offer.Offer.DID() {
		return false
	}
	var keys []string
	for _, method := range document.Methods {
		keys = append(keys, method.ID)
	}
	slices.Sort(keys)
	return c.running == nil || slices.Equal(keys, slices.Sorted(slices.Values(c.running.Keys)))
}

// hasSameTerms reports whether all connections reach the same terms. Instances of one offer have the same settings.
func (c *check) hasSameTerms(ctx context.Context) bool {
	terms, address := map[string]bool{}, c.Offer.Offer.URL(offer.PathOpenAPI)
	for range connections {
		if r, body, err := c.send(ctx, http.MethodGet, address); err == nil && r.StatusCode == http.StatusOK {
			terms[string(body)] = true
		}
	}
	if len(terms) > 1 {
		c.addIssue(SettingsDiffer, offer.Host(c.Offer.Offer.BaseURL),
			fmt.Sprintf("%s has %d versions on %d connections: give all instances the same settings", address, len(terms), connections))
	}
	return len(terms) <= 1
}

// quote reports whether the HTTP 402 quote arrives with its headers.
func (c *check) quote(ctx context.Context) bool {
	o, what := c.Offer.Offer, ""
	at := o.URL(offer.PathSponsor)
	r, _, err := c.send(ctx, http.MethodPost, at)
	switch {
	case err != nil:
		what = "POST " + at + " fails: " + reason(err)
	case r.StatusCode != http.StatusPaymentRequired:
		what = fmt.Sprintf("POST %s answers %d and not 402", at, r.StatusCode)
	case len(o.USDC()) > 0 && !isWhole(r.Header.Get(x402.HeaderRequired)):
		what = "the header " + x402.HeaderRequired + " of the quote is missing or cut off"
	case o.Challenges() && !strings.HasPrefix(r.Header.Get(mpp.HeaderChallenge), "Payment "):
		what = "the header " + mpp.HeaderChallenge + " of the quote is missing"
	default:
		return true
	}
	code := HeadersCut
	if err == nil && isCaddy(r.Header) {
		code = OtherHandler
	}
	c.addIssue(code, at, what)
	return false
}

// isWhole reports whether the value of PAYMENT-REQUIRED can be decoded.
func isWhole(value string) bool {
	text, err := base64.StdEncoding.DecodeString(value)
	return err == nil && json.Valid(text)
}

// unreachable adds the issue for a failed request to base_url or site_url.
func (c *check) unreachable(origin string, err error) {
	host := offer.Host(origin)
	if invalid := (*tls.CertificateVerificationError)(nil); errors.As(err, &invalid) {
		c.addIssue(CertificateInvalid, host, fmt.Sprintf("the certificate of %s is not trusted: %v", host, invalid.Err))
	} else if c.answered { // else NotRunning explains it
		c.addIssue(Unreachable, host, host+" does not answer: "+reason(err))
	}
}

// addresses returns the addresses that the offer's server answers.
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

// otherAddresses returns the addresses that other servers answer: the hosted checkouts, and the
// page of the site if the site has its own host.
func (c *check) otherAddresses() (all []string) {
	o := c.Offer.Offer
	if o.SiteURL != o.BaseURL {
		all = append(all, o.SitePage())
	}
	for _, m := range o.Methods(offer.Live{}) {
		if m.Network == offer.OffChain && m.URL != "" {
			all = append(all, m.URL)
		}
	}
	return all
}

// links requests addresses, maxLinks at a time.
func (c *check) links(ctx context.Context, addresses []string) {
	var work errgroup.Group
	work.SetLimit(maxLinks)
	for _, address := range addresses {
		work.Go(func() error {
			r, body, err := c.send(ctx, http.MethodGet, address)
			at, _, _ := strings.Cut(address, "#")
			at, _, _ = strings.Cut(at, "?") // the query may contain a secret
			switch o := c.Offer.Offer; {
			case err != nil && address == o.SitePage() && o.SiteURL != o.BaseURL:
				c.unreachable(o.SiteURL, err)
			case err != nil:
				c.addIssue(LinkBroken, at, at+" does not answer: "+reason(err))
			case c.isBroken(address, r.StatusCode):
				c.addIssue(LinkBroken, at, fmt.Sprintf("%s answers %d", at, r.StatusCode))
			case address == o.SitePage():
				c.sitePolicy(r.Header, body)
			}
			return nil
		})
	}
	_ = work.Wait()
}

// isBroken reports whether the status of an address is an error. A checkout may refuse software
// and accept people. The webhook refuses GET. A rail without a price of bitcoin answers 503, which
// PriceSource explains. A site with its own host may need the server, which NotRunning explains.
func (c *check) isBroken(address string, status int) bool {
	o := c.Offer.Offer
	switch {
	case address == o.SitePage() && o.SiteURL != o.BaseURL:
		return status >= http.StatusBadRequest && (c.answered || status < http.StatusInternalServerError)
	case status == http.StatusNotFound, status == http.StatusGone:
		return true
	case !strings.HasPrefix(address, o.BaseURL+"/"):
		return status >= http.StatusInternalServerError
	case address == o.URL(offer.PathHookCard):
		return status != http.StatusMethodNotAllowed
	case status == http.StatusServiceUnavailable:
		return !slices.ContainsFunc(o.Rails, func(r offer.Rail) bool {
			return !r.Methods(o, offer.Live{})[0].Available && strings.Contains(address, offer.PathMethods+"/"+r.Name()+".")
		})
	}
	return status >= http.StatusBadRequest && status != http.StatusPaymentRequired && status != http.StatusTooManyRequests
}

// reason returns why a request failed. It does not quote the error, which may contain a
// secret address.
func reason(err error) string {
	var timeout net.Error
	switch {
	case errors.As(err, new(*net.DNSError)):
		return "its name has no address"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "the request timed out"
	}
	return "the connection fails"
}
