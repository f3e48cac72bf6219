package x402

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
)

// Statement is the payload of a signed artifact: an offer or a receipt.
type Statement struct {
	Offer   *OfferPayload
	Receipt *ReceiptPayload
}

// ResourceURL is what the statement is about.
func (s Statement) ResourceURL() string {
	if s.Offer != nil {
		return s.Offer.ResourceURL
	}
	return s.Receipt.ResourceURL
}

// ParseStatement reads the payload of a signed artifact. It must be canonical
// and have the members of its kind and no others: what is not understood here
// is not vouched for. The error is the end of a sentence about the artifact.
func ParseStatement(payload []byte) (Statement, error) {
	var version struct {
		Version int `json:"version"`
	}
	if json.Unmarshal(payload, &version) != nil {
		return Statement{}, errors.New("has a payload that cannot be read")
	}
	if version.Version != artifactVersion {
		return Statement{}, fmt.Errorf("has a payload of version %d; version %d is read here", version.Version, artifactVersion)
	}
	var receipt ReceiptPayload
	if isExactly(payload, &receipt) && receipt.Network != "" && receipt.Payer != "" && isTime(receipt.IssuedAt) {
		return Statement{Receipt: &receipt}, nil
	}
	var offer OfferPayload
	if isExactly(payload, &offer) && offer.Scheme != "" && offer.Network != "" && offer.PayTo != "" && isTime(offer.ValidUntil) {
		return Statement{Offer: &offer}, nil
	}
	return Statement{}, errors.New("is neither an offer nor a receipt of x402")
}

// isExactly reads a payload and reports whether it is the canonical form of
// what was read.
func isExactly(payload []byte, into any) bool {
	if json.Unmarshal(payload, into) != nil {
		return false
	}
	canonical, err := signature.Canonical(encode(into))
	return err == nil && bytes.Equal(canonical, payload)
}

// isTime reports whether Unix seconds are a time that can be written as a date.
func isTime(seconds int64) bool { return seconds >= 0 && seconds <= math.MaxUint32 }

// MaxArtifacts is how many artifacts a text may hold to be checked.
const MaxArtifacts = 16

// FindSigned takes the compact JWS out of a text: one as it is, a header of a
// quote or a paid answer with or without its name, or JSON that holds artifacts
// at any place. It finds each once, those in other formats included, and stops
// at the first beyond MaxArtifacts.
func FindSigned(text []byte) []string {
	var found finder
	found.text(bytes.TrimSpace(text))
	if len(found) > 0 {
		return found
	}
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch http.CanonicalHeaderKey(string(bytes.TrimSpace(name))) {
		case http.CanonicalHeaderKey(HeaderRequired), http.CanonicalHeaderKey(HeaderResponse):
			found.text(bytes.TrimSpace(value))
		}
	}
	return found
}

// finder is what was found so far.
type finder []string

// text looks at a JWS, at JSON, or at JSON in base64.
func (f *finder) text(text []byte) {
	if looksSigned(string(text)) {
		f.add(string(text))
		return
	}
	if decoded, err := decodeBase64(string(text)); err == nil {
		text = decoded
	}
	if _, err := signature.Canonical(text); err != nil {
		return // it is no JSON, or too deep
	}
	var value any
	if json.Unmarshal(text, &value) == nil {
		f.value(value)
	}
}

func (f *finder) value(value any) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			f.value(element)
		}
	case map[string]any:
		format, formatted := value["format"].(string)
		if signed, ok := value["signature"].(string); ok && formatted {
			if format != formatJWS {
				signed = format + ":" + signed // no JWS, so that it is not passed over
			}
			f.add(signed)
			return
		}
		// Members have no order of their own; this one is the same each time.
		names := make([]string, 0, len(value))
		for name := range value {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			f.value(value[name])
		}
	}
}

func (f *finder) add(signed string) {
	if len(*f) <= MaxArtifacts && !slices.Contains(*f, signed) {
		*f = append(*f, signed)
	}
}

// looksSigned reports whether a text has the three parts of a compact JWS.
func looksSigned(text string) bool {
	return strings.Count(text, ".") == 2 && !strings.ContainsAny(text, " \r\n\t{}\"/:+=") && strings.HasPrefix(text, "ey")
}
