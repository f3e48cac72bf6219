package document

import "github.com/payoffer/caddy-pay-offer/payoffer/offer"

// nodeInfoSchema identifies NodeInfo 2.1. It is http by definition.
const nodeInfoSchema = "http://nodeinfo.diaspora.software/ns/schema/2.1"

// NodeInfoIndex is the NodeInfo discovery document.
func NodeInfoIndex(o *offer.Offer) Document {
	return JSON(typeJSON, descriptor{Links: []link{{Rel: nodeInfoSchema, Href: o.URL(offer.PathNodeInfo21)}}})
}

// nodeInfo is a NodeInfo 2.1 document. Only its metadata may have more members.
type nodeInfo struct {
	Version           string           `json:"version"`
	Software          nodeInfoSoftware `json:"software"`
	Protocols         []string         `json:"protocols"`
	Services          nodeInfoServices `json:"services"`
	OpenRegistrations bool             `json:"openRegistrations"`
	Usage             nodeInfoUsage    `json:"usage"`
	Metadata          nodeInfoMetadata `json:"metadata" jsonschema:"The offer and its rails."`
}

type nodeInfoSoftware struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	Repository string `json:"repository" jsonschema:"The source code."`
}

type nodeInfoServices struct {
	Inbound  []string `json:"inbound"`
	Outbound []string `json:"outbound"`
}

type nodeInfoUsage struct {
	Users struct{} `json:"users"`
}

type nodeInfoMetadata struct {
	NodeName        string          `json:"nodeName"`
	NodeDescription string          `json:"nodeDescription"`
	ProtocolsNote   string          `json:"protocolsNote"`
	Payment         nodeInfoPayment `json:"payment"`
}

type nodeInfoPayment struct {
	Operator string         `json:"operator"`
	Amount   string         `json:"amount"`
	Currency string         `json:"currency"`
	URL      string         `json:"url"`
	Invoice  string         `json:"invoice"`
	Rails    []nodeInfoRail `json:"rails"`
}

type nodeInfoRail struct {
	Rail  string `json:"rail"`
	Title string `json:"title"`
	URIs  string `json:"uriList"`
}

// NodeInfo is the NodeInfo 2.1 document with the offer in its metadata. The schema requires a
// federation protocol; the metadata say that the server supports none.
func NodeInfo(o *offer.Offer) Document {
	payment := nodeInfoPayment{
		Operator: o.Operator, Amount: o.Amount.Decimal(), Currency: "USD",
		URL: o.Card.URL, Invoice: o.URL(offer.PathInvoice),
	}
	for _, r := range o.Rails {
		payment.Rails = append(payment.Rails, nodeInfoRail{r.Name(), unpricedMethod(o, r).Title, o.URL(offer.URIPath(r.Name()))})
	}
	return JSON(typeJSON+`; profile="`+nodeInfoSchema+`#"`, nodeInfo{
		Version:   "2.1",
		Software:  nodeInfoSoftware{Name: "pay-offer", Version: Version, Repository: o.SourceURL},
		Protocols: []string{"activitypub"},
		Services:  nodeInfoServices{Inbound: []string{}, Outbound: []string{}},
		Metadata: nodeInfoMetadata{
			NodeName: o.Name, NodeDescription: o.Description,
			ProtocolsNote: "This server supports no federation protocol; one is named only because the NodeInfo schema requires it.",
			Payment:       payment,
		},
	})
}
