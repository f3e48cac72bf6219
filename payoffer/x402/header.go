package x402

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// maxPayload bounds a decoded payment payload in bytes. Reference clients send
// about 3 KB with every extension echoed.
const maxPayload = 32 << 10

// EncodeHeader is the base64 of v's JSON in the standard alphabet with padding,
// the one form that every client reads.
func EncodeHeader(v any) string { return base64.StdEncoding.EncodeToString(encode(v)) }

// PayloadFromHeader takes the payment payload out of PAYMENT-SIGNATURE, or out
// of X-PAYMENT for version 1. Both alphabets of base64 are read, with or
// without padding. present is false for a request without payment.
func PayloadFromHeader(h http.Header) (payload []byte, present bool, err error) {
	values := h.Values(HeaderSignature)
	if len(values) == 0 {
		values = h.Values(HeaderSignatureV1)
	} else if len(h.Values(HeaderSignatureV1)) > 0 {
		return nil, true, fmt.Errorf("send the payment in %s or in %s, not in both", HeaderSignature, HeaderSignatureV1)
	}
	switch {
	case len(values) == 0:
		return nil, false, nil
	case len(values) > 1:
		return nil, true, errors.New("the payment header stands twice in the request; send it once")
	case len(values[0]) > base64.StdEncoding.EncodedLen(maxPayload):
		return nil, true, fmt.Errorf("the payment header is longer than %d bytes of payload", maxPayload)
	}
	payload, err = decodeBase64(values[0])
	if err != nil {
		return nil, true, errors.New("the payment header is not base64")
	}
	return payload, true, nil
}

func decodeBase64(s string) ([]byte, error) {
	s = strings.TrimRight(strings.TrimSpace(s), "=")
	if strings.ContainsAny(s, "-_") {
		return base64.RawURLEncoding.Strict().DecodeString(s)
	}
	return base64.RawStdEncoding.Strict().DecodeString(s)
}
