package document

import "github.com/payoffer/caddy-pay-offer/payoffer/offer"

// invoice is the body of GET /v1/invoice (docs/reference/http-api.md).
type invoice struct {
	ID          string          `json:"id"`
	AmountUSD   offer.USD       `json:"amountUsd"`
	Currency    string          `json:"currency"`
	Description string          `json:"description"`
	Card        string          `json:"card"`
	Methods     []invoiceMethod `json:"methods"`
}

// invoiceMethod is a method. The first method of a rail has its URI list and QR image.
type invoiceMethod struct {
	offer.Method
	URIList string `json:"uriList,omitempty" jsonschema:"The rail's URI list."`
	QR      string `json:"qr,omitempty" jsonschema:"The rail's QR image."`
}

// Invoice lists every payment method as of now.
func Invoice(o *offer.Offer, live offer.Live) Document {
	out := invoice{
		ID: o.ID, AmountUSD: o.Amount, Currency: "USD",
		Description: o.Description, Card: o.Card.URL,
	}
	for _, r := range o.Rails {
		for i, m := range r.Methods(o, live) {
			method := invoiceMethod{Method: m}
			if i == 0 {
				method = firstMethod(o, m)
			}
			out.Methods = append(out.Methods, method)
		}
	}
	return JSON(typeJSON, out)
}

// Method is the first method of a rail, as the invoice lists it.
func Method(o *offer.Offer, m offer.Method) Document { return JSON(typeJSON, firstMethod(o, m)) }

func firstMethod(o *offer.Offer, m offer.Method) invoiceMethod {
	return invoiceMethod{Method: m, URIList: o.URL(offer.URIPath(m.Rail)), QR: o.URL(offer.PNGPath(m.Rail))}
}
