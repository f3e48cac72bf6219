package x402

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// payment is a payment payload whose shape is right; whether it pays anything
// is for check to say.
type payment struct {
	version int
	// network is the CAIP-2 id that the client named; asset the token, for
	// version 1 the one known on that network.
	network, asset string
	// accepted is what a version 2 client says that it accepted.
	accepted      Requirements
	authorization authorization
	signature     []byte
	// proven says that the signature is the payer's, by its key (check) or by the chain (prove).
	proven bool
	// since is of the ledger's Look at the payer when the request came.
	since int64
	// paymentID is the payment-identifier extension, or empty.
	paymentID string
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
	addressForm   = regexp.MustCompile(`^0x[0-9a-fA-F]{40}$`)
	wordForm      = regexp.MustCompile(`^0x[0-9a-fA-F]{64}$`) // a nonce, a transaction's hash
	integerForm   = regexp.MustCompile(`^(0|[1-9][0-9]{0,77})$`)
	paymentIDForm = regexp.MustCompile(`^[A-Za-z0-9_-]{16,128}$`)
)

// decodePayment reads a payload. Every error is a sentence about the payload
// and repeats nothing of it.
func decodePayment(raw []byte) (*payment, error) {
	if len(raw) > maxPayload {
		return nil, fmt.Errorf("it is longer than %d bytes", maxPayload)
	}
	if err := checkJSON(raw); err != nil {
		return nil, err
	}
	var in payloadJSON
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, errors.New("a member has the wrong JSON type; integers travel as decimal strings")
	}
	p := &payment{version: in.X402Version}
	switch in.X402Version {
	case 2:
		if in.Accepted == nil {
			return nil, errors.New("a version 2 payload needs 'accepted', the requirement that it pays")
		}
		p.accepted = *in.Accepted
		p.network, p.asset = in.Accepted.Network, strings.ToLower(in.Accepted.Asset)
	case 1:
		p.accepted.Scheme = in.Scheme
		p.network = in.Network
		if network, err := offer.LookupNetwork(in.Network); err == nil && network.V1 && network.Name == in.Network {
			p.network, p.asset = network.CAIP2(), strings.ToLower(network.USDC)
		}
	default:
		return nil, fmt.Errorf("x402Version %d is not spoken here; use 2 or 1", in.X402Version)
	}
	if in.Payload.Authorization == nil {
		return nil, errors.New("'payload.authorization' is missing; the scheme is exact with an EIP-3009 authorization")
	}
	p.authorization = *in.Payload.Authorization
	if err := p.authorization.check(); err != nil {
		return nil, err
	}
	digits, prefixed := strings.CutPrefix(in.Payload.Signature, "0x")
	var err error
	p.signature, err = hex.DecodeString(digits)
	if !prefixed || err != nil {
		return nil, errors.New("'payload.signature' must be 0x and hexadecimal")
	}
	if err := checkSignature(p.signature); err != nil {
		return nil, err
	}
	return p, p.readPaymentID(in.Extensions[extensionPaymentID])
}

func (a *authorization) check() error {
	switch {
	case !addressForm.MatchString(a.From):
		return errors.New("'authorization.from' is not an address")
	case !addressForm.MatchString(a.To):
		return errors.New("'authorization.to' is not an address")
	case !wordForm.MatchString(a.Nonce):
		return errors.New("'authorization.nonce' must be 32 bytes of hexadecimal")
	}
	for _, member := range [...]struct{ name, value string }{{"value", a.Value}, {"validAfter", a.ValidAfter}, {"validBefore", a.ValidBefore}} {
		if !integerForm.MatchString(member.value) || integer(member.value).BitLen() > 256 {
			return fmt.Errorf("'authorization.%s' must be an unsigned 256-bit integer as a decimal string", member.name)
		}
	}
	return nil
}

// integer reads a decimal string that integerForm matched.
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
	case json.Unmarshal(extension, &in) != nil:
		return errors.New("the payment-identifier extension has the wrong shape")
	case in.Info.ID == nil:
		return nil
	case !paymentIDForm.MatchString(*in.Info.ID):
		return errors.New("the payment identifier must be 16 to 128 of A-Z, a-z, 0-9, hyphen and underscore")
	}
	p.paymentID = *in.Info.ID
	return nil
}

// key names the money movement that the payload authorises: the chain's own
// nonce makes it happen at most once (EIP-3009).
func (p *payment) key() ledger.IntentKey {
	return ledger.IntentKey{
		Network: p.network,
		Asset:   p.asset,
		From:    strings.ToLower(p.authorization.From),
		Nonce:   strings.ToLower(p.authorization.Nonce),
	}
}

// fingerprint is equal for two payloads with the same authorization and
// signature, whatever their JSON order, letter case, encoding or dialect.
func (p *payment) fingerprint() string {
	a := p.authorization
	sum := sha256.Sum256([]byte(strings.Join([]string{strings.ToLower(a.From), strings.ToLower(a.To), a.Value, a.ValidAfter, a.ValidBefore,
		strings.ToLower(a.Nonce), hex.EncodeToString(keyForm(p.signature))}, "\n")))
	return hex.EncodeToString(sum[:])
}

// maxDepth bounds the nesting of a payment payload.
const maxDepth = 32

// memberNames are the members that are read outside of extensions.
var memberNames = []string{"x402Version", "scheme", "network", "accepted", "payload", "extensions", "signature",
	"authorization", "from", "to", "value", "validAfter", "validBefore", "nonce", "amount", "asset", "payTo"}

// checkJSON refuses JSON that two parsers may read differently: text that is
// not UTF-8, members whose names are equal but for case, known names in another
// case, nesting without end, bytes after the value. A facilitator must see the
// authorization that was checked here, not another. Its time grows with the
// length alone.
func checkJSON(data []byte) error {
	// The names are compared below, and more strictly.
	decoder := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
	if err := checkValue(decoder, false); err != nil {
		return err
	}
	if _, err := decoder.ReadToken(); err != io.EOF {
		return errNoJSON
	}
	return nil
}

var errNoJSON = errors.New("it is not one valid JSON value")

// checkValue passes over one value. foreign is true inside of extensions, whose
// members are not ours to name.
func checkValue(decoder *jsontext.Decoder, foreign bool) error {
	opening, err := decoder.ReadToken()
	if err != nil {
		return errNoJSON
	}
	object := opening.Kind() == '{'
	if !object && opening.Kind() != '[' {
		return nil
	}
	if decoder.StackDepth() > maxDepth {
		return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	}
	seen := make(map[string]bool)
	for kind := decoder.PeekKind(); kind != '}' && kind != ']'; kind = decoder.PeekKind() {
		inside := foreign
		if object {
			token, err := decoder.ReadToken()
			if err != nil {
				return errNoJSON
			}
			name := token.String()
			if err := checkName(name, seen, foreign); err != nil {
				return err
			}
			inside = foreign || name == "extensions"
		}
		if err := checkValue(decoder, inside); err != nil {
			return err
		}
	}
	if _, err := decoder.ReadToken(); err != nil {
		return errNoJSON
	}
	return nil
}

func checkName(name string, seen map[string]bool, foreign bool) error {
	folded := fold(name)
	if seen[folded] {
		return errors.New("an object has two members of one name")
	}
	seen[folded] = true
	if foreign || slices.Contains(memberNames, name) {
		return nil
	}
	for _, known := range memberNames {
		if strings.EqualFold(known, name) {
			return fmt.Errorf("a member must be written %q", known)
		}
	}
	return nil
}

// fold makes one name of all that encoding/json takes for the same: it
// compares by Unicode's simple folding, so that "\u017fignature" is read as
// "signature".
func fold(name string) string { return strings.ToLower(strings.ToUpper(name)) }
