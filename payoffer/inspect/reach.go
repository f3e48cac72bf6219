package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/desk"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// service looks whether base_url leads here, and at what arrives of the answers. What
// explains the rest ends it: of one cause there is one finding.
func (i *inspection) service(ctx context.Context) {
	base := i.Offer.Offer.BaseURL
	if !i.resolves(ctx, base) {
		return
	}
	first, err := i.exchange(ctx, http.MethodGet, base+offer.PathHumans)
	if err != nil {
		i.unreached(base, err)
		return
	}
	i.certificate(base, first)
	posted, postErr := i.exchange(ctx, http.MethodPost, base+offer.PathSponsor)
	arrivals := i.arrivals(ctx)
	switch {
	case i.running == nil && first.status != http.StatusOK:
		return // that none runs is found already
	case i.running == nil && i.document(ctx).ID != i.Offer.Offer.DID():
		i.found(OtherServer, offer.Host(base), "what answers has another identity than "+i.Offer.Offer.DID())
		return
	case i.running != nil && len(arrivals) == 0 && !i.otherInstance(ctx):
		i.astray(first)
		return
	}
	i.addresses(arrivals)
	i.links(ctx, i.quote(posted, postErr, arrivals))
}

// site looks whether the page for people is served.
func (i *inspection) site(ctx context.Context) {
	o := i.Offer.Offer
	if o.SiteURL == o.BaseURL || !i.resolves(ctx, o.SiteURL) {
		return
	}
	page, err := i.exchange(ctx, http.MethodGet, o.SitePage())
	switch {
	case err != nil:
		i.unreached(o.SiteURL, err)
	case !i.asked && page.status >= http.StatusInternalServerError:
	case page.status >= http.StatusBadRequest:
		i.found(LinkBroken, o.SitePage(), fmt.Sprintf("%s answers %d", o.SitePage(), page.status))
		fallthrough
	default:
		i.certificate(o.SiteURL, page)
	}
}

// resolves looks whether the host of an origin has public addresses; one that is meant
// for this machine needs none.
func (i *inspection) resolves(ctx context.Context, origin string) bool {
	host := offer.Hostname(origin)
	if offer.IsLoopback(host) {
		return true
	}
	addresses := []netip.Addr{}
	if literal, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		addresses = append(addresses, literal)
	} else {
		ctx, cancel := context.WithTimeout(ctx, callPatience)
		defer cancel()
		if addresses, err = i.Resolve(ctx, host); err != nil || len(addresses) == 0 {
			what := "no address is known for " + host
			if named := (*net.DNSError)(nil); errors.As(err, &named) && !named.IsNotFound {
				what = "the name server does not answer for " + host
			}
			i.found(DNSUnresolved, host, what)
			return false
		}
	}
	for _, a := range addresses {
		if a = a.Unmap(); !a.IsGlobalUnicast() || a.IsPrivate() {
			i.found(NotPublic, host, fmt.Sprintf("%s leads to %s", host, a))
			return false
		}
	}
	return true
}

// unreached finds why a call to one of our hosts failed.
func (i *inspection) unreached(origin string, err error) {
	host := offer.Host(origin)
	why := untrusted(err)
	switch {
	case why != "":
		i.found(BadCertificate, host, "the certificate of "+host+" is not trusted: "+why)
	case !i.asked: // that none runs is found already
	case !offer.IsLoopback(offer.Hostname(origin)) && i.onLoopbackAlone():
		i.found(LoopbackOnly, host, fmt.Sprintf("%s does not answer (%s), and the server listens at %s alone", host, failure(err), strings.Join(i.listens(), ", ")))
	default:
		i.found(Unreachable, host, host+" does not answer: "+failure(err))
	}
}

// listens are the addresses at which the directive's servers listen.
func (i *inspection) listens() (all []string) {
	for _, site := range i.Sites {
		for _, at := range site.Listen {
			if !slices.Contains(all, at) {
				all = append(all, at)
			}
		}
	}
	return all
}

func (i *inspection) onLoopbackAlone() bool {
	all := i.listens()
	return len(all) > 0 && !slices.ContainsFunc(all, func(at string) bool {
		host, _, err := net.SplitHostPort(at)
		return err != nil || !offer.IsLoopback(host)
	})
}

// astray finds why base_url answers, and not from the running server.
func (i *inspection) astray(first answer) {
	base := i.Offer.Offer.BaseURL
	host, name := offer.Host(base), offer.Hostname(base)
	meant := slices.ContainsFunc(i.Sites, func(s Site) bool { return s.serves(name) })
	switch {
	case len(i.Sites) > 0 && !meant:
		i.found(BaseURLMismatch, host, fmt.Sprintf("base_url is %s, and the directive stands in a site block for %s", base, strings.Join(i.Sites[0].Hosts, ", ")))
	case slices.ContainsFunc(i.Sites, func(s Site) bool { return s.Prefix != "" }):
		at := slices.IndexFunc(i.Sites, func(s Site) bool { return s.Prefix != "" })
		i.found(PrefixStripped, host, fmt.Sprintf("%s answers %d, for the directive stands below %s, which is taken away", base+offer.PathHumans, first.status, i.Sites[at].Prefix))
	case first.status == http.StatusBadGateway || first.status == http.StatusServiceUnavailable || first.status == http.StatusGatewayTimeout:
		i.found(Unreachable, host, fmt.Sprintf("a proxy at %s answers %d and does not reach the server", host, first.status))
	default:
		i.found(OtherServer, host, fmt.Sprintf("%s answers %d, and the running server has not seen the request", base+offer.PathHumans, first.status))
	}
}

// serves reports whether a site is for a host. A wildcard stands for one label.
func (s Site) serves(host string) bool {
	return len(s.Hosts) == 0 || slices.ContainsFunc(s.Hosts, func(h string) bool {
		_, domain, _ := strings.Cut(host, ".")
		return strings.EqualFold(h, host) || strings.EqualFold(h, "*."+domain)
	})
}

// arrivals are the requests of this inspection that the running server has seen.
func (i *inspection) arrivals(ctx context.Context) []desk.Arrival {
	if i.running == nil {
		return nil
	}
	all, err := i.Ask(ctx, desk.Sounding{Token: i.Token})
	if err != nil {
		return nil
	}
	for _, one := range all {
		if one.ID == i.Offer.Offer.ID {
			return one.Arrivals
		}
	}
	return nil
}

// identity is what is read of a DID document.
type identity struct {
	ID      string `json:"id"`
	Methods []struct {
		ID string `json:"id"`
	} `json:"verificationMethod"`
}

// document is the DID document at base_url; empty where there is none.
func (i *inspection) document(ctx context.Context) (d identity) {
	answer, err := i.exchange(ctx, http.MethodGet, i.Offer.Offer.URL(offer.PathDID))
	if err == nil && answer.status == http.StatusOK {
		_ = json.Unmarshal(answer.body, &d) // what cannot be read is no document of ours
	}
	return d
}

// otherInstance reports whether what answers is another instance of the same service: it
// shares the ledger, and signs with the same keys.
func (i *inspection) otherInstance(ctx context.Context) bool {
	if !i.running.Ledger.Shared || len(i.running.Keys) == 0 {
		return false
	}
	var keys []string
	for _, method := range i.document(ctx).Methods {
		keys = append(keys, method.ID)
	}
	return slices.Equal(slices.Sorted(slices.Values(keys)), slices.Sorted(slices.Values(i.running.Keys)))
}

// certificate finds one that ends soon.
func (i *inspection) certificate(origin string, a answer) {
	if a.tls == nil || len(a.tls.PeerCertificates) == 0 {
		return
	}
	leaf := a.tls.PeerCertificates[0]
	if left := leaf.NotAfter.Sub(i.Now()); left < leaf.NotAfter.Sub(leaf.NotBefore)/6 {
		host := offer.Host(origin)
		i.found(OldCertificate, host, fmt.Sprintf("the certificate of %s ends at %s", host, leaf.NotAfter.UTC().Format("2006-01-02 15:04 UTC")))
	}
}

// addresses finds a proxy behind which all buyers have one address. It is one for certain
// where a header names somebody else, or where what was sent encrypted arrives in the
// clear; a router that changes addresses does neither.
func (i *inspection) addresses(arrivals []desk.Arrival) {
	encrypted := strings.HasPrefix(i.Offer.Offer.BaseURL, "https://")
	for _, a := range arrivals {
		if a.Counted != "" && a.Counted == a.Peer && !a.Itself && (a.Forwarded || encrypted && !a.Encrypted) {
			i.found(AddressesHidden, offer.Host(i.Offer.Offer.BaseURL), "a proxy at "+a.Peer+" passes requests on, and rate_limit counts all of them by that address")
			return
		}
	}
}
