package card

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	signatureHeader = "Stripe-Signature"
	// tolerance bounds how far the time of a signature is from now, before or after, in seconds.
	tolerance = 300
)

var (
	errSignature = errors.New("the signature was not made with webhook_secret; copy the signing secret of this webhook endpoint again")
	// errTimestamp means a replay, or a wrong clock.
	errTimestamp = errors.New("the signature is genuine, but more than 300 seconds away from this server's clock; correct the clock")
)

// Verify checks the header Stripe-Signature, "t=<Unix seconds>,v1=<hex>[,v1=<hex>…]", against the body as it arrived. One
// v1 must be the HMAC-SHA256, with the whole secret as key, of the time as written, a dot and the body. Unlike Stripe's
// Go library it also rejects times ahead, a second time and upper-case digits, so that no altered header passes.
func Verify(secret, header string, body []byte, now time.Time) error {
	timestamp, signatures, ok := parseSignature(header)
	if !ok || secret == "" {
		return errSignature
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	expected := []byte(hex.EncodeToString(mac.Sum(nil)))
	genuine := func(signature string) bool { return hmac.Equal(expected, []byte(signature)) }
	if !slices.ContainsFunc(signatures, genuine) {
		return errSignature
	}
	if !isCurrent(timestamp, now) {
		return errTimestamp
	}
	return nil
}

// isCurrent reports whether a time, in digits, is near now.
func isCurrent(timestamp string, now time.Time) bool {
	at, err := strconv.ParseInt(timestamp, 10, 64)
	away := now.Unix() - at
	return err == nil && -tolerance <= away && away <= tolerance
}

// isDigest reports whether a signature has the form of one.
func isDigest(signature string) bool {
	return len(signature) == hex.EncodedLen(sha256.Size) && strings.Trim(signature, "0123456789abcdef") == ""
}

// parseSignature splits the header; ok is false if it is malformed.
func parseSignature(header string) (timestamp string, signatures []string, ok bool) {
	for item := range strings.SplitSeq(header, ",") {
		scheme, value, found := strings.Cut(item, "=")
		switch {
		case !found || strings.Contains(value, "="):
			return "", nil, false
		case scheme == "t":
			if timestamp != "" || value == "" || strings.Trim(value, "0123456789") != "" {
				return "", nil, false
			}
			timestamp = value
		case scheme == "v1":
			signatures = append(signatures, value)
		}
	}
	return timestamp, signatures, timestamp != ""
}
