package buyer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	strict "github.com/go-json-experiment/json"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

const (
	// decimals of USDC on every known network.
	decimals = 6
	// maxValidity limits how long a signed authorization can be spent.
	maxValidity = 10 * time.Minute

	// extensionSigned has long signed offers that the seller does not need back.
	extensionSigned    = "offer-receipt"
	extensionPaymentID = "payment-identifier"
)

// Quote is the price of a resource. Its texts are the seller's.
type Quote struct {
	Resource, Description string
	// Method is GET or POST.
	Method string
	// Demo means that the seller is a demo of this plugin.
	Demo    bool
	Network offer.Network
	// PayTo is the payee's address in EIP-55 form.
	PayTo string
	// Atomic is the amount in atomic units of USDC.
	Atomic int64
	// Validity is how long the authorization can be spent.
	Validity time.Duration

	// page is the seller's payment page for people, or empty.
	page string
	// The payment repeats these bytes, because a seller may compare them.
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
	// Fallback is the checkout for people of an offer of this plugin.
	Fallback json.RawMessage `json:"fallback"`
}

// pageLink is the link of a payment page, as this plugin writes it.
var pageLink = regexp.MustCompile(`^<([^>]+)>; rel="payment"`)

// errNoQuote means that the seller does not ask for a payment by the method.
var errNoQuote = errors.New("no quote")

// Quote requests the price of a target. It sends no payment and needs no key. Without a
// method it sends GET, and POST if GET gets no quote or the quote declares POST (x402, Bazaar).
func (b *Buyer) Quote(ctx context.Context, t Target) (*Quote, error) {
	if t.Method != "" {
		return b.quote(ctx, t)
	}
	t.Method = http.MethodGet
	q, err := b.quote(ctx, t)
	if errors.Is(err, errNoQuote) || err == nil && q.declares(http.MethodPost) {
		t.Method = http.MethodPost
		return b.quote(ctx, t)
	}
	return q, err
}

// declares reports whether the quote says that the resource is paid by a method.
func (q *Quote) declares(method string) bool {
	var bazaar struct {
		Info struct{ Input struct{ Method string } }
	}
	return json.Unmarshal(q.extensions["bazaar"], &bazaar) == nil && bazaar.Info.Input.Method == method
}

func (b *Buyer) quote(ctx context.Context, t Target) (*Quote, error) {
	a, err := b.send(ctx, t, "", quoteTimeout, maxQuote)
	if explained := source.ExplainCertificate(err); explained != err {
		return nil, fmt.Errorf("%s sent no quote: %w", offer.Host(t.Origin()), explained)
	} else if err != nil {
		return nil, fmt.Errorf("%s sent no quote: %w; check the URL and the network connection", offer.Host(t.Origin()), err)
	}
	err = a.checkQuote()
	switch path := t.url.Path; {
	case err == nil:
	case strings.HasPrefix(path, offer.PathReceipt+"/") && errors.Is(err, errNoQuote) && a.status < 500:
		return nil, fmt.Errorf("%w; on an offer of this plugin it belongs to a receipt and costs nothing: open it in a browser, or name the address that you paid for", err)
	case strings.HasPrefix(path, "/v1/") && path != offer.PathSponsor && errors.Is(err, errNoQuote):
		return nil, fmt.Errorf("%w; an offer of this plugin is paid at %s", err, t.Origin()+offer.PathSponsor)
	default:
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
		return nil, errors.New("the resource of the quote is not an object; ask the seller to correct the quote")
	}
	q, err := b.choose(in.Accepts)
	if err != nil {
		return nil, err
	}
	delete(in.Extensions, extensionSigned)
	q.Resource, q.Description, q.Method, q.Demo = resource.URL, resource.Description, t.Method, a.header.Get(offer.HeaderDemo) != ""
	q.resource, q.extensions = in.Resource, in.Extensions
	for _, link := range a.header.Values("Link") {
		if found := pageLink.FindStringSubmatch(link); found != nil {
			q.page = found[1]
		}
	}
	return q, nil
}

// checkQuote returns why the answer to a request without payment is not a quote.
func (a *answer) checkQuote() error {
	switch status := a.status; {
	case status == http.StatusPaymentRequired && a.incomplete != nil:
		return fmt.Errorf("the quote cannot be read: %w", a.incomplete)
	case status == http.StatusPaymentRequired:
		return nil
	case status >= 300 && status < 400:
		return fmt.Errorf("the URL redirects (status %d) to %s; pay that address instead if you trust it",
			status, quoted(a.header.Get("Location")))
	case status >= 200 && status < 300:
		return fmt.Errorf("%w: the URL does not ask for a payment (status %d); check --method and the URL, such as https://pay.example.org/v1/sponsor", errNoQuote, status)
	default:
		return fmt.Errorf("%w: the URL responds with status %d instead of 402; check --method and the URL, such as https://pay.example.org/v1/sponsor", errNoQuote, status)
	}
}

// parseRequired decodes the version 2 quote of the header, or of the body if there is
// no header. Duplicate and differently spelled member names are errors.
func parseRequired(header http.Header, body []byte) (in required, err error) {
	if value := header.Get(x402.HeaderRequired); value != "" {
		if body, err = x402.DecodeHeader(value); err != nil {
			return in, fmt.Errorf("the quote cannot be read: the header %s is not base64; ask the seller to correct it", x402.HeaderRequired)
		}
	}
	if err := strict.Unmarshal(body, &in); err != nil || in.X402Version == 0 {
		var checkout struct{ URL string }
		if json.Unmarshal(in.Fallback, &checkout) == nil && checkout.URL != "" {
			return in, fmt.Errorf("the seller takes no x402 payment; a person can pay at %s", quoted(checkout.URL))
		}
		return in, errors.New("the 402 has no x402 quote, neither in " + x402.HeaderRequired + " nor in the body; check that the seller takes x402")
	}
	if in.X402Version != 2 {
		return in, fmt.Errorf("the quote is of x402 version %d, but this command pays only version 2; ask the seller for version 2", in.X402Version)
	}
	return in, nil
}

// choose returns the first payment method that this client supports. The error says for
// each method why it does not.
func (b *Buyer) choose(accepts []json.RawMessage) (*Quote, error) {
	var reasons []string
	for _, accepted := range accepts {
		q, err := b.checkTerms(accepted)
		if err == nil {
			return q, nil
		}
		reasons = append(reasons, err.Error())
	}
	if len(reasons) == 0 {
		reasons = []string{"the quote has no payment methods"}
	}
	return nil, errors.New("not paid: " + strings.Join(reasons, "\n  "))
}

// checkTerms checks one payment method against the table of networks and the payer's
// limits.
func (b *Buyer) checkTerms(accepted json.RawMessage) (*Quote, error) {
	var in struct {
		x402.Requirements
		Extra struct {
			Name           string `json:"name"`
			Version        string `json:"version"`
			TransferMethod string `json:"assetTransferMethod"`
		} `json:"extra"`
	}
	if strict.Unmarshal(accepted, &in) != nil {
		return nil, errors.New("a payment method of the quote has a member of the wrong type; ask the seller to correct it")
	}
	known, err := offer.LookupNetwork(in.Network)
	if err != nil || known.CAIP2() != in.Network {
		return nil, fmt.Errorf("the network %s is not supported; this command pays USDC, such as on eip155:8453 (Base)", quoted(in.Network))
	}
	amount, err := strconv.ParseInt(in.Amount, 10, 64)
	switch extra := in.Extra; {
	case b.Network != "" && b.Network != known.Name && b.Network != known.CAIP2():
		return nil, fmt.Errorf("the seller is paid on %s, and --network is %s; leave out --network to pay there", known.Title, b.Network)
	case in.Scheme != "exact":
		return nil, fmt.Errorf("the scheme %s is not supported; this command pays only by exact", quoted(in.Scheme))
	case !strings.EqualFold(in.Asset, known.USDC):
		return nil, fmt.Errorf("the token %s on %s is not USDC (%s); do not pay this seller", quoted(in.Asset), known.Title, known.USDC)
	case extra.Name != known.TokenName || extra.Version != known.TokenVersion:
		return nil, fmt.Errorf("the quote names the token %s version %s, but USDC on %s is %q version %q; a signature for another name moves no money",
			quoted(extra.Name), quoted(extra.Version), known.Title, known.TokenName, known.TokenVersion)
	case extra.TransferMethod != "" && extra.TransferMethod != "eip3009":
		return nil, fmt.Errorf("the transfer method %s is not supported; this command pays only by eip3009", quoted(extra.TransferMethod))
	case err != nil || amount <= 0 || strconv.FormatInt(amount, 10) != in.Amount:
		return nil, fmt.Errorf("the amount %s is not a number of atomic units, such as \"42000000\"; ask the seller to correct it", quoted(in.Amount))
	case amount > b.Max:
		return nil, fmt.Errorf("it costs %s USD, more than --max %s; raise --max if you agree to the price", offer.FormatDecimal(amount, decimals), offer.FormatDecimal(b.Max, decimals))
	case in.MaxTimeoutSeconds <= 0:
		return nil, fmt.Errorf("maxTimeoutSeconds is %d, but must be positive; ask the seller to correct it", in.MaxTimeoutSeconds)
	}
	rail, err := offer.NewUSDC("", known, in.PayTo, 0) // also refuses the contract of a token
	if err != nil {
		return nil, fmt.Errorf("the payee %s cannot be paid: %s", quoted(in.PayTo), Plain(err.Error()))
	}
	validity := time.Duration(min(in.MaxTimeoutSeconds, int(maxValidity/time.Second))) * time.Second
	return &Quote{Network: known, PayTo: rail.PayTo, Atomic: amount, Validity: validity, accepted: accepted}, nil
}
