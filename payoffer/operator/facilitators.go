package operator

import "github.com/payoffer/caddy-pay-offer/payoffer/x402"

// Facilitator says how one that settles is, on one network.
type Facilitator struct {
	Host    string `json:"host"`
	Network string `json:"network"` // a CAIP-2 id
	// Reason is a code of why it is not asked now, accepts_unfunded of one that is
	// asked and accepts payers without money, or empty.
	Reason string `json:"reason,omitempty"`
	// BazaarStatus is what it said last of listing the payable address: "success",
	// "processing" or "rejected", which has a reason; empty while it said nothing.
	BazaarStatus string `json:"bazaar_status,omitempty"`
	BazaarReason string `json:"bazaar_reason,omitempty"`
}

func facilitators(all []x402.FacilitatorHealth) (list []Facilitator) {
	for _, f := range all {
		list = append(list, Facilitator{f.Host, f.Network, f.Reason, f.Listing.Status, f.Listing.Reason})
	}
	return list
}
