package document

import "github.com/payoffer/caddy-pay-offer/payoffer/offer"

// did is a DID document (DID Core 1.0 section 4).
type did struct {
	Context     []string     `json:"@context"`
	ID          string       `json:"id"`
	AlsoKnownAs []string     `json:"alsoKnownAs"`
	Service     []didService `json:"service"`
}

// didService is a service of a DID document (DID Core 1.0 section 5.4).
type didService struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Endpoint string `json:"serviceEndpoint"`
}

// DID is the did:web document (did:web method specification). The service
// #payment is the card checkout; a service #rail-<name> is the URI list of
// each rail. The prefix keeps a rail that the operator named "payment" apart.
func DID(o *offer.Offer) Document {
	const paymentService = "PaymentService"
	id := o.DID()
	services := []didService{{ID: id + "#payment", Type: paymentService, Endpoint: o.Card.URL}}
	for _, r := range o.Rails {
		services = append(services, didService{
			ID: id + "#rail-" + r.Name(), Type: paymentService, Endpoint: o.URL(offer.URIPath(r.Name())),
		})
	}
	return JSON("application/did+json", did{
		Context: []string{"https://www.w3.org/ns/did/v1"}, ID: id,
		AlsoKnownAs: []string{o.Acct()}, Service: services,
	})
}
