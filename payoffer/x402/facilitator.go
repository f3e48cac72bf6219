package x402

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// DefaultTestFacilitator settles on test networks without an account. Without www it redirects.
const DefaultTestFacilitator = "https://www.x402.org/facilitator"

const (
	// defaultTimeout bounds one call, and verifyTimeout a call that sends nothing to the chain.
	defaultTimeout = 30 * time.Second
	verifyTimeout  = 5 * time.Second
)

// The paths of a facilitator's calls.
const (
	callVerify    = "verify"
	callSettle    = "settle"
	callSupported = "supported"
)

type FacilitatorConfig struct {
	// URL is the address below which /verify, /settle and /supported are.
	URL string
	// KeyID and KeySecret sign requests to the CDP facilitator; both or none.
	KeyID, KeySecret string
	// Header and HeaderValue are a header that authenticates each call instead. The value is a secret.
	Header, HeaderValue string
	// Timeout bounds one call; default 30 s. Verification has at most 5 s.
	Timeout time.Duration
	// Transport, Now and Logger default to http.DefaultTransport, time.Now and no log.
	Transport http.RoundTripper
	Now       func() time.Time
	Logger    *slog.Logger
}

// Facilitator is a client of a service that verifies payments and settles them on the chain. Rails,
// offers and configurations may share it.
type Facilitator struct {
	Changes source.Listeners // of what it supports

	config    FacilitatorConfig
	url       *url.URL
	client    *http.Client
	signer    *cdpSigner // nil without a key
	secrets   []string   // texts that are passed on must not contain them
	slots     slots
	health    health
	loop      source.Loop
	rejection atomic.Value // FacilitatorHealth.Rejection
}

// NewFacilitator checks the configuration and makes no call. Errors name only the host, because a URL
// may contain a key.
func NewFacilitator(c FacilitatorConfig) (*Facilitator, error) {
	u, err := offer.ParseURL(strings.TrimSuffix(c.URL, "/"))
	if err != nil {
		return nil, errors.New("the facilitator's address is not an absolute https URL; write one, such as " + DefaultTestFacilitator)
	}
	var random func() float64
	source.Default(&c.Now, &random, &c.Logger)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	f := &Facilitator{
		config: c, url: u, secrets: secretsOf(u, append(strings.Fields(c.HeaderValue), c.KeyID, c.KeySecret)...),
		slots: slots{make(chan struct{}, maxCalls), make(chan struct{}, maxUnfunded)}, health: health{networks: make(map[string]bool)},
		// A redirect would send the payment to an address that is not configured.
		client: &http.Client{Transport: c.Transport, CheckRedirect: source.NoRedirect},
	}
	if c.KeyID != "" || c.KeySecret != "" {
		if f.signer, err = newCDPSigner(c.KeyID, c.KeySecret, c.Now); err != nil {
			return nil, fmt.Errorf("facilitator %s: %w", u.Host, err)
		}
	}
	f.loop = source.Loop{
		Poll: f.poll, Random: random, Least: minPause, Most: maxPause,
		OnChange: source.Log(c.Logger.With("facilitator", f.Host()), "facilitator is down", "facilitator is up again"),
	}
	return f, nil
}

// Host is the public part of the facilitator's address.
func (f *Facilitator) Host() string { return f.url.Host }

type facilitatorRequest struct {
	X402Version         int             `json:"x402Version"`
	PaymentPayload      json.RawMessage `json:"paymentPayload"`
	PaymentRequirements json.RawMessage `json:"paymentRequirements"`
}

// reply is a facilitator's answer to verify or settle.
type reply struct {
	IsValid, Success                             *bool // of verify, and of settle
	InvalidReason, ErrorReason, ErrorType, Error string
	InvalidMessage, ErrorMessage, Message        string
	Transaction, Payer, Network                  string
	PaymentID                                    string // is set if the facilitator settles later

	yes bool
	// reason is a code and message a text for a person; both are sanitized.
	reason, message string
	listing         Listing
	rejection       string // FacilitatorHealth.Rejection
}

// textMark separates the code and the text in the stored reason of an open intent.
const textMark = ": "

// timeout bounds a call.
func (f *Facilitator) timeout(call string) time.Duration {
	if call == callSettle {
		return f.config.Timeout
	}
	return min(f.config.Timeout, verifyTimeout)
}

// verify asks whether a payment can be settled. funded says that the payer was seen to have the money.
func (f *Facilitator) verify(ctx context.Context, r facilitatorRequest, funded bool) (reply, error) {
	leave, err := f.slots.waitForSlot(ctx, f.timeout(callVerify), funded)
	if err != nil {
		return reply{}, err
	}
	defer leave()
	return f.request(ctx, callVerify, r)
}

// reasonPending: the transaction is sent and not mined yet. A reply with a paymentId means the same.
// Neither is a yes, whatever else the reply says.
const reasonPending = "settlement_pending"

// settle has a payment settled. It repeats the identical request once if the transaction is pending.
func (f *Facilitator) settle(ctx context.Context, r facilitatorRequest) (reply, error) {
	leave, err := f.slots.waitForSlot(ctx, f.timeout(callSettle), true)
	if err != nil {
		return reply{}, err
	}
	defer leave()
	failpoint.Hit(failpoint.SettleBefore)
	first, err := f.request(ctx, callSettle, r)
	failpoint.Hit(failpoint.SettleAfter)
	if err != nil || first.reason != reasonPending {
		return first, err
	}
	second, err := f.request(ctx, callSettle, r)
	if err != nil || !wordForm.MatchString(second.Transaction) {
		return first, nil
	}
	return second, nil
}
