package x402

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// DefaultTestFacilitator settles on test networks without an account. x402.org redirects
// there, and a facilitator must not redirect.
const DefaultTestFacilitator = "https://www.x402.org/facilitator"

const (
	// defaultTimeout is how long a facilitator may take for one call.
	defaultTimeout = 30 * time.Second
	// verifyTimeout is how long it may take at most where nothing is sent to the
	// chain: to verify a payment, and to answer a probe.
	verifyTimeout = 5 * time.Second
)

// The calls of a facilitator, by their paths.
const (
	callVerify    = "verify"
	callSettle    = "settle"
	callSupported = "supported"
)

// FacilitatorConfig describes a facilitator.
type FacilitatorConfig struct {
	// URL is the address below which /verify, /settle and /supported stand.
	URL string
	// KeyID and KeySecret sign requests to the CDP facilitator; both or none.
	KeyID, KeySecret string
	// Header and HeaderValue are a header that authenticates each call instead. The
	// value is a secret.
	Header, HeaderValue string
	// Timeout bounds one call; those that only verify have 5 seconds at most.
	// 0 means 30 seconds.
	Timeout time.Duration
	// Transport carries the calls. nil means http.DefaultTransport.
	Transport http.RoundTripper
	// Now is the clock of signed requests and of probes. nil means time.Now.
	Now func() time.Time
	// Logger hears of changes while Run watches. nil means nobody.
	Logger *slog.Logger
}

// Facilitator verifies and settles payments on the chain for us. It may be
// shared by rails, offers and configurations: what fails for one is not asked
// for another.
type Facilitator struct {
	url     *url.URL
	timeout time.Duration
	client  *http.Client
	signer  *cdpSigner // nil without a key
	// header is sent with each call, unless its name is empty.
	header, headerValue string
	secrets             []string // what no text that is passed on may hold
	slots               *slots
	now                 func() time.Time
	log                 *slog.Logger

	health health
	// loop makes the probes; probed is when the last one began, which is Run's own.
	loop   source.Loop
	probed time.Time
}

// NewFacilitator checks a facilitator's configuration and calls nobody. Errors
// name the host alone, for a URL may carry a key.
func NewFacilitator(c FacilitatorConfig) (*Facilitator, error) {
	u, err := offer.ParseURL(strings.TrimSuffix(c.URL, "/"))
	if err != nil {
		return nil, errors.New("the facilitator's address is not usable; write an absolute https URL, as in " + DefaultTestFacilitator + " (plain http only to loopback)")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	f := &Facilitator{
		url: u, timeout: cmp.Or(c.Timeout, defaultTimeout), secrets: secretsOf(u, append(strings.Fields(c.HeaderValue), c.KeyID, c.KeySecret)...),
		header: c.Header, headerValue: c.HeaderValue,
		slots: newSlots(), now: c.Now, log: cmp.Or(c.Logger, slog.New(slog.DiscardHandler)),
		health: health{expected: make(map[string]*expectation)},
		// A redirect would carry the payment to an address nobody configured.
		client: &http.Client{Transport: c.Transport, CheckRedirect: source.NoRedirect},
	}
	if c.KeyID != "" || c.KeySecret != "" {
		if f.signer, err = newCDPSigner(c.KeyID, c.KeySecret, c.Now); err != nil {
			return nil, fmt.Errorf("facilitator %s: %w", u.Host, err)
		}
	}
	f.loop = source.Loop{
		Round: f.round, Random: rand.Float64,
		Turned: source.Log(f.log.With("facilitator", f.Host()), "facilitator is left alone for a while", "facilitator is asked again"),
	}
	return f, nil
}

// Host is what may be shown of the facilitator's address.
func (f *Facilitator) Host() string { return f.url.Host }

// facilitatorRequest is the body of /verify and /settle. Payload and
// requirements are JSON.
type facilitatorRequest struct {
	X402Version         int
	PaymentPayload      json.RawMessage
	PaymentRequirements json.RawMessage
}

func (r facilitatorRequest) body() []byte {
	return slices.Concat([]byte(`{"x402Version":`+strconv.Itoa(r.X402Version)+`,"paymentPayload":`), r.PaymentPayload,
		[]byte(`,"paymentRequirements":`), r.PaymentRequirements, []byte("}"))
}

type verifyReply struct {
	IsValid        *bool  `json:"isValid"`
	InvalidReason  string `json:"invalidReason"`
	InvalidMessage string `json:"invalidMessage"`
}

type settleReply struct {
	Success *bool `json:"success"`
	// ErrorReason is a code, ErrorMessage a text for a person or empty; both may
	// be passed on.
	ErrorReason  string `json:"errorReason"`
	ErrorMessage string `json:"errorMessage"`
	Transaction  string `json:"transaction"`
	Payer        string `json:"payer"`
	Network      string `json:"network"`
	// PaymentID names a settlement that the facilitator makes later.
	PaymentID string `json:"paymentId"`

	listing Listing
}

// reason is the code, and the text after it if there is one.
func (r settleReply) reason() string {
	if r.ErrorMessage == "" {
		return r.ErrorReason
	}
	return r.ErrorReason + textMark + r.ErrorMessage
}

// textMark stands between a code and a text in the reason of an open intent.
const textMark = ": "

// verdict is what a facilitator says of a payment: that it would settle, or why
// not, as a code and as a text for a person or empty. Both may be passed on.
type verdict struct {
	valid           bool
	reason, message string
	listing         Listing
}

// verify asks whether a payment would settle. funded says that the payer was
// seen to have the money: whoever was not waits with the others of that kind.
func (f *Facilitator) verify(ctx context.Context, r facilitatorRequest, funded bool) (verdict, error) {
	timeout := min(f.timeout, verifyTimeout)
	leave, err := f.slots.enter(ctx, timeout, funded)
	if err != nil {
		return verdict{}, err
	}
	defer leave()
	var reply verifyReply
	said, err := f.ask(ctx, timeout, callVerify, r, &reply, &reply.IsValid)
	if err != nil {
		f.suspect(ctx)
		return verdict{listing: said}, err
	}
	if *reply.IsValid {
		return verdict{valid: true, listing: said}, nil
	}
	reason, message := f.words(reply.InvalidReason, reply.InvalidMessage)
	return verdict{reason: reason, message: message, listing: said}, nil
}

// reasonPending is a facilitator's word for "sent, but not mined yet". A reply with a
// paymentId means the same. Neither is a yes, whatever else the reply says.
const reasonPending = "settlement_pending"

// settle has a payment settled. The identical request is repeated once when the
// reply is that the transaction waits to be mined.
func (f *Facilitator) settle(ctx context.Context, r facilitatorRequest) (settleReply, error) {
	leave, err := f.slots.enter(ctx, f.timeout, true)
	if err != nil {
		return settleReply{}, err
	}
	defer leave()
	failpoint.Hit(failpoint.SettleBefore)
	reply, err := f.settleOnce(ctx, r)
	failpoint.Hit(failpoint.SettleAfter)
	if err != nil || reply.ErrorReason != reasonPending {
		return reply, err
	}
	second, err := f.settleOnce(ctx, r)
	if err != nil || !wordForm.MatchString(second.Transaction) {
		// The first reply still names the transaction to look for.
		return reply, nil
	}
	return second, nil
}

func (f *Facilitator) settleOnce(ctx context.Context, r facilitatorRequest) (settleReply, error) {
	var reply settleReply
	said, err := f.ask(ctx, f.timeout, callSettle, r, &reply, &reply.Success)
	if err != nil {
		f.suspect(ctx)
		return settleReply{listing: said}, err
	}
	reply.listing = said
	reply.ErrorReason, reply.ErrorMessage = f.words(reply.ErrorReason, reply.ErrorMessage)
	if reply.PaymentID != "" {
		reply.ErrorReason = reasonPending
	}
	*reply.Success = *reply.Success && reply.ErrorReason != reasonPending
	return reply, nil
}
