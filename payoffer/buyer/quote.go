package buyer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	strict "github.com/go-json-experiment/json"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const (
	// decimals of USDC, on every known network.
	decimals = 6
	// maxValidity bounds how long a signed authorization can be spent.
	maxValidity = 10 * time.Minute
	// maxAccepts bounds the payment methods that are compared.
	maxAccepts = 64
	// maxEcho bounds what a payment repeats of the quote, in bytes.
	maxEcho = 16 << 10

	// The signed offers are long, and the seller does not need them back.
	extensionSigned    = "offer-receipt"
	extensionPaymentID = "payment-identifier"
)

// Quote is what a seller asks: who gets how much of what, and where. Its texts are
// a stranger's.
type Quote struct {
	Resource, Description string
	// Demo says that the seller calls itself a demo of this plugin.
	Demo    bool
	Network offer.Network
	// PayTo is the payee in EIP-55 form.
	PayTo string
	// Atomic is the amount in atomic units of USDC.
	Atomic int64
	// Validity is how long the payment can be spent.
	Validity time.Duration

	// These go back as they came, because a seller may compare them byte by byte.
	resource, accepted json.RawMessage
	extensions         map[string]json.RawMessage
}

// Amount is the price in USDC as a decimal number, which is the price in US dollars.
func (q *Quote) Amount() string { return offer.FormatDecimal(q.Atomic, decimals) }

// required is a PaymentRequired of version 2.
type required struct {
	X402Version int                        `json:"x402Version"`
	Error       string                     `json:"error"`
	Resource    json.RawMessage            `json:"resource"`
	Accepts     []json.RawMessage          `json:"accepts"`
	Extensions  map[string]json.RawMessage `json:"extensions"`
}

// Quote asks what the target costs. It sends no payment and needs no key.
func (b *Buyer) Quote(ctx context.Context, t Target) (*Quote, error) {
	a, err := b.send(ctx, t, "", quoteTimeout, maxQuote)
	if err != nil {
		return nil, fmt.Errorf("%s does not answer with a price: %w", offer.Host(t.Origin()), err)
	}
	if err := a.checkQuote(); err != nil {
		return nil, err
	}
	in, err := parseRequired(a.header, a.body)
	if err != nil {
		return nil, err
	}
	var resource struct {
		URL         string `json:"url"`
		Description string `json:"description"`
	}
	if len(in.Resource) > 0 && strict.Unmarshal(in.Resource, &resource) != nil {
		return nil, errors.New("the resource of the quote has the wrong shape")
	}
	delete(in.Extensions, extensionSigned)
	echo := len(in.Resource)
	for name, extension := range in.Extensions {
		echo += len(name) + len(extension)
	}
	if echo > maxEcho {
		return nil, fmt.Errorf("the quote has more than %d bytes that a payment must repeat", maxEcho)
	}
	q, err := b.choose(in.Accepts)
	if err != nil {
		return nil, err
	}
	q.Resource, q.Description, q.Demo = resource.URL, resource.Description, a.header.Get(offer.HeaderDemo) != ""
	q.resource, q.extensions = in.Resource, in.Extensions
	return q, nil
}

// checkQuote says why an answer to a request without payment is not a quote.
func (a *answer) checkQuote() error {
	switch status := a.status; {
	case status == http.StatusPaymentRequired && a.cut != nil:
		return fmt.Errorf("the quote cannot be read: %w", a.cut)
	case status == http.StatusPaymentRequired:
		return nil
	case status >= 300 && status < 400:
		return fmt.Errorf("the URL redirects (status %d) to %s, and a payment follows no redirect; give that address if you trust it",
			status, quoted(a.header.Get("Location")))
	case status >= 200 && status < 300:
		return fmt.Errorf("the URL asks for no payment (status %d); try --method GET or POST if it should", status)
	default:
		return fmt.Errorf("the URL answers with status %d instead of 402; check that it is the payable URL and that --method is right", status)
	}
}

// parseRequired decodes the version 2 quote of the header, or of the body of a
// seller that uses no header.
func parseRequired(header http.Header, body []byte) (in required, err error) {
	switch values := header.Values(x402.HeaderRequired); {
	case len(values) > 1:
		return in, fmt.Errorf("the answer has two quotes (%s)", x402.HeaderRequired)
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
			return in, errors.New("the 402 has no x402 quote, neither in " + x402.HeaderRequired + " nor in the body")
		}
	}
	if in.X402Version != 2 {
		return in, fmt.Errorf("the quote is of x402 version %d, and this command pays version 2; ask the seller for version 2", in.X402Version)
	}
	return in, nil
}

// decode reads JSON that every parser reads the same way, with exact member names.
// The error is the end of a sentence.
func decode(text []byte, into any) error {
	if _, err := signature.Canonical(text); err != nil {
		return errors.New("is not unambiguous JSON")
	}
	if strict.Unmarshal(text, into) != nil {
		return errors.New("has a member of the wrong JSON type")
	}
	return nil
}

// choose takes the first payment method that this client can take. The error says
// for each why not.
func (b *Buyer) choose(accepts []json.RawMessage) (*Quote, error) {
	if len(accepts) == 0 || len(accepts) > maxAccepts {
		return nil, fmt.Errorf("the quote has %d payment methods; from 1 to %d can be compared", len(accepts), maxAccepts)
	}
	var reasons []string
	for _, accepted := range accepts {
		q, err := b.checkTerms(accepted)
		if err == nil {
			return q, nil
		}
		reasons = append(reasons, err.Error())
	}
	return nil, errors.New("not paid: " + strings.Join(reasons, "\n  "))
}

// requirement is a PaymentRequirements of version 2.
type requirement struct {
	Scheme            string `json:"scheme"`
	Network           string `json:"network"`
	Amount            string `json:"amount"`
	Asset             string `json:"asset"`
	PayTo             string `json:"payTo"`
	MaxTimeoutSeconds int64  `json:"maxTimeoutSeconds"`
	Extra             struct {
		Name           string `json:"name"`
		Version        string `json:"version"`
		TransferMethod string `json:"assetTransferMethod"`
	} `json:"extra"`
}

// checkTerms compares one payment method with the table of networks and the limits
// of the payer.
func (b *Buyer) checkTerms(accepted json.RawMessage) (*Quote, error) {
	var in requirement
	if strict.Unmarshal(accepted, &in) != nil || len(accepted) > maxEcho {
		return nil, errors.New("a payment method of the quote has the wrong shape")
	}
	known, err := offer.LookupNetwork(in.Network)
	if err != nil || known.CAIP2() != in.Network {
		return nil, fmt.Errorf("the network %s is unknown", quoted(in.Network))
	}
	if b.Network != "" && b.Network != known.Name && b.Network != known.CAIP2() {
		return nil, fmt.Errorf("the seller is paid on %s, and --network is %s", known.Title, b.Network)
	}
	if err := in.checkToken(known); err != nil {
		return nil, err
	}
	amount, err := strconv.ParseInt(in.Amount, 10, 64)
	if err != nil || amount <= 0 || strconv.FormatInt(amount, 10) != in.Amount {
		return nil, fmt.Errorf("the amount %s is not a number of atomic units", quoted(in.Amount))
	}
	if amount > b.Max {
		return nil, fmt.Errorf("it costs %s USD, which is more than --max %s", offer.FormatDecimal(amount, decimals), offer.FormatDecimal(b.Max, decimals))
	}
	if in.MaxTimeoutSeconds <= 0 {
		return nil, fmt.Errorf("maxTimeoutSeconds is %d; it must be positive", in.MaxTimeoutSeconds)
	}
	rail, err := offer.NewUSDC("", known, in.PayTo, 0) // refuses the contract of a token as payee, too
	if err != nil {
		return nil, fmt.Errorf("the payee %s cannot be paid: %s", quoted(in.PayTo), Plain(err.Error()))
	}
	validity := min(time.Duration(min(in.MaxTimeoutSeconds, int64(maxValidity/time.Second)))*time.Second, maxValidity)
	return &Quote{Network: known, PayTo: rail.PayTo, Atomic: amount, Validity: validity, accepted: accepted}, nil
}

// checkToken refuses every token but the network's USDC, and other names for it.
func (in *requirement) checkToken(known offer.Network) error {
	switch extra := in.Extra; {
	case in.Scheme != "exact":
		return fmt.Errorf("the scheme %s is unknown", quoted(in.Scheme))
	case !strings.EqualFold(in.Asset, known.USDC):
		return fmt.Errorf("the token %s on %s is not USDC (%s)", quoted(in.Asset), known.Title, known.USDC)
	case extra.Name != known.TokenName || extra.Version != known.TokenVersion:
		return fmt.Errorf("the quote calls the token %s version %s, and USDC on %s is %q version %q; a signature for another name moves no money",
			quoted(extra.Name), quoted(extra.Version), known.Title, known.TokenName, known.TokenVersion)
	case extra.TransferMethod != "" && extra.TransferMethod != "eip3009":
		return fmt.Errorf("the transfer method is %s, and this command pays by eip3009 only", quoted(extra.TransferMethod))
	}
	return nil
}
