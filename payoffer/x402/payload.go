package x402

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"time"

	strict "github.com/go-json-experiment/json"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// payment is a decoded payment payload.
type payment struct {
	version int
	// network is a CAIP-2 id and asset the token's address. Version 1 payloads name no token.
	network, asset string
	// accepted is what a version 2 client accepted.
	accepted      Requirements
	authorization authorization
	signature     []byte
	// proven: the signature is the payer's, by its key (check) or by the chain (prove).
	proven bool
	// since is ledger.Lookup.Since.
	since int64
	// paymentID is the payment-identifier extension, or empty.
	paymentID string
	// secret is the hash of what only the payer knows of the request, or empty (ledger.Intent.Secret).
	secret string
	// response is that of the attempt, or nil.
	response *Response
	// deferred: it is charged after the application's answer.
	deferred bool
	// behind is how far this machine's clock is behind the newest block, as far as is known.
	behind time.Duration
	// byPayer: the request brought the authorization before it could be public.
	byPayer bool
}

// payloadJSON is a PaymentPayload of either version.
type payloadJSON struct {
	X402Version int           `json:"x402Version"`
	Scheme      string        `json:"scheme"`
	Network     string        `json:"network"`
	Accepted    *Requirements `json:"accepted"`
	Payload     struct {
		Signature     string         `json:"signature"`
		Authorization *authorization `json:"authorization"`
	} `json:"payload"`
	Extensions map[string]json.RawMessage `json:"extensions"`
}

const extensionPaymentID = "payment-identifier"

var (
	addressForm = regexp.MustCompile(`^0x[0-9a-fA-F]{40}$`)
	wordForm    = regexp.MustCompile(`^0x[0-9a-fA-F]{64}$`) // a nonce, a transaction's hash
	integerForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,77})$`)
	idForm      = regexp.MustCompile(`^[A-Za-z0-9_-]{16,128}$`) // a payment identifier, a token
)

// decodePayment reads a payload. Duplicate names, names in another letter case and invalid UTF-8
// are errors. An error is a sentence about the payload. It repeats at most 80 characters of a public member.
func decodePayment(raw []byte) (*payment, error) {
	if len(raw) > maxPayload {
		return nil, fmt.Errorf("it has %d bytes; send at most %d", len(raw), maxPayload)
	}
	var in payloadJSON
	if err := strict.Unmarshal(raw, &in); err != nil {
		return nil, errors.New("it is not a JSON object of x402; names must be unique and integers decimal strings, such as \"42000000\"")
	}
	p := &payment{version: in.X402Version}
	switch in.X402Version {
	case 2:
		if in.Accepted == nil {
			return nil, errors.New("'accepted' is missing; copy the entry of 'accepts' that the payment is for")
		}
		p.accepted = *in.Accepted
		p.network, p.asset = in.Accepted.Network, strings.ToLower(in.Accepted.Asset)
		p.secret = hashSecret(readToken(in.Extensions[ExtensionAccess]))
	case 1:
		p.accepted.Scheme, p.accepted.Network, p.network = in.Scheme, in.Network, in.Network
		if network, err := offer.LookupNetwork(in.Network); err == nil && network.V1 && network.Name == in.Network {
			p.network, p.asset = network.CAIP2(), strings.ToLower(network.USDC)
		}
	default:
		return nil, fmt.Errorf("x402Version is %d, which is not supported; use 2 or 1", in.X402Version)
	}
	if in.Payload.Authorization == nil {
		return nil, errors.New("'payload.authorization' is missing; sign an EIP-3009 authorization, as the scheme exact requires")
	}
	p.authorization = *in.Payload.Authorization
	if err := p.authorization.check(); err != nil {
		return nil, err
	}
	digits, prefixed := strings.CutPrefix(in.Payload.Signature, "0x")
	var err error
	p.signature, err = hex.DecodeString(digits)
	if !prefixed || err != nil || len(p.signature) < minSignature || len(p.signature) > maxSignature {
		// Only the length is checked, because a contract may accept any bytes.
		return nil, fmt.Errorf("'payload.signature' is not a signature; write 0x and %d to %d bytes in hexadecimal", minSignature, maxSignature)
	}
	return p, p.readPaymentID(in.Extensions[extensionPaymentID])
}

func (a *authorization) check() error {
	switch {
	case !addressForm.MatchString(a.From):
		return fmt.Errorf("'authorization.from' is %.80q, not an address; write 0x and 40 hexadecimal digits", a.From)
	case !addressForm.MatchString(a.To):
		return fmt.Errorf("'authorization.to' is %.80q, not an address; write 0x and 40 hexadecimal digits", a.To)
	case !wordForm.MatchString(a.Nonce):
		return fmt.Errorf("'authorization.nonce' is %.80q, not 32 bytes; write 0x and 64 hexadecimal digits", a.Nonce)
	}
	for _, member := range [...]struct{ name, value string }{{"value", a.Value}, {"validAfter", a.ValidAfter}, {"validBefore", a.ValidBefore}} {
		if !integerForm.MatchString(member.value) || integer(member.value).BitLen() > 256 {
			return fmt.Errorf("'authorization.%s' is %.80q, not an unsigned 256-bit integer; write a decimal string, such as \"42000000\"", member.name, member.value)
		}
	}
	return nil
}

// integer reads a string that matches integerForm.
func integer(s string) *big.Int {
	n, _ := new(big.Int).SetString(s, 10)
	return n
}

func (p *payment) readPaymentID(extension json.RawMessage) error {
	var in struct {
		Info struct {
			ID *string `json:"id"`
		} `json:"info"`
	}
	switch {
	case len(extension) == 0:
		return nil
	case strict.Unmarshal(extension, &in) != nil:
		return errors.New("the extension payment-identifier cannot be read; write {\"info\": {\"id\": \"…\"}}")
	case in.Info.ID == nil:
		return nil
	case !idForm.MatchString(*in.Info.ID):
		return fmt.Errorf("the payment identifier is %.80q; use 16 to 128 letters, digits, hyphens and underscores", *in.Info.ID)
	}
	p.paymentID = *in.Info.ID
	return nil
}

// readToken reads the token of the extension access. It ignores everything else, because a client may have an
// extension of that name.
func readToken(extension json.RawMessage) string {
	var in struct {
		Info struct {
			Token string `json:"token"`
		} `json:"info"`
	}
	if strict.Unmarshal(extension, &in) != nil || !idForm.MatchString(in.Info.Token) {
		return ""
	}
	return in.Info.Token
}

// hashSecret is the hex SHA-256 of a secret; empty for none.
func hashSecret(secret string) string {
	if secret == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// key identifies the transfer: the token accepts a nonce of a payer once (EIP-3009).
func (p *payment) key() ledger.IntentKey {
	return ledger.IntentKey{
		Network: p.network, Asset: p.asset, From: strings.ToLower(p.authorization.From), Nonce: strings.ToLower(p.authorization.Nonce),
	}
}

// fingerprint is equal for payloads with the same authorization and signature in any encoding.
func (p *payment) fingerprint() string {
	a := p.authorization
	sum := sha256.Sum256([]byte(strings.Join([]string{strings.ToLower(a.From), strings.ToLower(a.To), a.Value, a.ValidAfter, a.ValidBefore,
		strings.ToLower(a.Nonce), hex.EncodeToString(keyForm(p.signature))}, "\n")))
	return hex.EncodeToString(sum[:])
}
