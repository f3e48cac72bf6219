package buyer

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	strict "github.com/go-json-experiment/json"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// The extensions of a quote that a buyer reads.
const (
	extensionSigned    = "offer-receipt"
	extensionPaymentID = "payment-identifier"
)

// Quote is what a seller asks, and which of its terms were chosen. Its texts are a
// stranger's.
type Quote struct {
	// Resource and Description say what is sold, Reason why it is not handed over.
	Resource, Description, Reason string
	// Receipts says that the seller signs receipts.
	Receipts bool
	// Demo says that the seller is a demo of this plugin's, by its own word.
	Demo bool
	Terms
	Vouch

	// resource and the members of accepts travel back as they came: a seller may
	// compare them to the letter.
	resource   json.RawMessage
	accepts    []json.RawMessage
	extensions map[string]json.RawMessage
	// signed are the offers in compact form.
	signed []string
}

// quoteJSON is a PaymentRequired of version 2.
type quoteJSON struct {
	X402Version int                        `json:"x402Version"`
	Error       string                     `json:"error"`
	Resource    json.RawMessage            `json:"resource"`
	Accepts     []json.RawMessage          `json:"accepts"`
	Extensions  map[string]json.RawMessage `json:"extensions"`
}

const (
	// maxAccepts bounds the ways to pay that are looked at.
	maxAccepts = 64
	// maxEcho bounds what travels back in the header of a payment, in bytes.
	maxEcho = 16 << 10
)

// parseQuote reads the terms out of a 402: from its header, or from the body of a
// seller that uses no header.
func parseQuote(header http.Header, body []byte) (*Quote, error) {
	in, err := findQuote(header, body)
	if err != nil {
		return nil, err
	}
	var resource struct {
		URL         string `json:"url"`
		Description string `json:"description"`
	}
	switch {
	case len(in.Resource) > 0 && strict.Unmarshal(in.Resource, &resource) != nil:
		return nil, errors.New("the quote cannot be read: its resource has the wrong shape")
	case len(in.Accepts) == 0:
		return nil, errors.New("the quote accepts no way to pay")
	case len(in.Accepts) > maxAccepts:
		return nil, fmt.Errorf("the quote names more than %d ways to pay", maxAccepts)
	}
	echo := len(in.Resource)
	for name, extension := range in.Extensions {
		if name != extensionSigned {
			echo += len(name) + len(extension)
		}
	}
	if echo > maxEcho {
		return nil, fmt.Errorf("the quote has more than %d bytes that a payment must repeat", maxEcho)
	}
	q := &Quote{
		Resource: resource.URL, Description: resource.Description, Reason: in.Error,
		Demo:     header.Get(offer.HeaderDemo) != "",
		resource: in.Resource, accepts: in.Accepts, extensions: in.Extensions,
	}
	// The header may have no room for the signed offers, which stand in the body then.
	for _, place := range []map[string]json.RawMessage{in.Extensions, extensionsOf(body)} {
		if extension := place[extensionSigned]; extension != nil && !q.Receipts {
			q.Receipts, q.signed = true, x402.FindSigned(extension)
		}
	}
	return q, nil
}

// findQuote decodes the version 2 quote, wherever it stands.
func findQuote(header http.Header, body []byte) (in quoteJSON, err error) {
	values := header.Values(x402.HeaderRequired)
	switch {
	case len(values) > 1:
		return in, fmt.Errorf("the quote stands twice in the answer (%s)", x402.HeaderRequired)
	case len(values) == 1:
		text, err := x402.DecodeHeader(values[0])
		if err != nil {
			return in, fmt.Errorf("the quote cannot be read: %s is not base64", x402.HeaderRequired)
		}
		if err := decode(text, &in); err != nil {
			return in, fmt.Errorf("the quote cannot be read: %s %w", x402.HeaderRequired, err)
		}
	default:
		if decode(body, &in) != nil || in.X402Version == 0 {
			return in, errors.New("it asks for payment (402) by other means than x402: there is no quote in " + x402.HeaderRequired + " and none in the body")
		}
	}
	switch in.X402Version {
	case 2:
		return in, nil
	case 1:
		return in, errors.New("it speaks version 1 of x402 alone, and this command speaks version 2 alone; ask the seller for version 2, or pay with a client of version 1")
	default:
		return in, fmt.Errorf("it speaks version %d of x402, and this command version 2 alone", in.X402Version)
	}
}

// extensionsOf are those in a body, which may be of version 1, or nothing.
func extensionsOf(body []byte) map[string]json.RawMessage {
	var in struct {
		Extensions map[string]json.RawMessage `json:"extensions"`
	}
	if decode(body, &in) != nil {
		return nil
	}
	return in.Extensions
}

// decode reads JSON that no two parsers read differently, and members by their exact
// names, as other readers of a quote do. The error is the end of
// a sentence.
func decode(text []byte, into any) error {
	if _, err := signature.Canonical(text); err != nil {
		return errors.New("is not JSON that all read alike")
	}
	if strict.Unmarshal(text, into) != nil {
		return errors.New("has a member of the wrong JSON type")
	}
	return nil
}
