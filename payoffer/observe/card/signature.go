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

// signatureHeader carries the signatures of a delivery.
const signatureHeader = "Stripe-Signature"

const (
	// tolerance bounds how far the time of a signature is from now, before or
	// after, in seconds.
	tolerance = 300
	// maxSignature bounds the header, in bytes: while secrets are rotated it
	// holds a signature of 68 bytes for each.
	maxSignature = 2 << 10
	// maxTimestamp bounds the digits of its time.
	maxTimestamp = 12
)

// Errors of Verify.
var (
	// errSignature is returned for a delivery that was not signed with the
	// secret as it stands.
	errSignature = errors.New("the signature is missing, malformed or not made with the configured webhook_secret")
	// errTimestamp is returned for a genuine delivery that was signed at
	// another time: it is a replay, or one of the clocks is wrong.
	errTimestamp = errors.New("the signature is genuine and more than 300 seconds away from the clock of this server")
)

// Verify checks the header Stripe-Signature, "t=<Unix seconds>,v1=<hex>[,v1=<hex>…]",
// against the body as it arrived: one of the v1 is the HMAC-SHA256, keyed with the
// whole secret, of the time as written, a dot and the body. Other schemes are
// ignored. An empty secret verifies nothing. Errors: errSignature, errTimestamp.
//
// Unlike the processor's own Go library it bounds the time in both directions,
// refuses a header with two times, and reads hexadecimal digits in lower case
// alone, so that no altered header is as good as the original.
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
	if !current(timestamp, now) {
		return errTimestamp
	}
	return nil
}

// current reports whether the time of a signature, of at most maxTimestamp
// digits, is near enough to now.
func current(timestamp string, now time.Time) bool {
	at, _ := strconv.ParseInt(timestamp, 10, 64)
	away := now.Unix() - at
	return -tolerance <= away && away <= tolerance
}

// recent reports whether the time in a header is near enough to now.
func recent(header string, now time.Time) bool {
	timestamp, _, ok := parseSignature(header)
	return ok && current(timestamp, now)
}

// digest reports whether a signature has the form of one.
func digest(signature string) bool {
	return len(signature) == hex.EncodedLen(sha256.Size) && strings.Trim(signature, "0123456789abcdef") == ""
}

// parseSignature splits the header; ok is false for one that is not of the
// form above.
func parseSignature(header string) (timestamp string, signatures []string, ok bool) {
	if len(header) > maxSignature {
		return "", nil, false
	}
	for item := range strings.SplitSeq(header, ",") {
		scheme, value, found := strings.Cut(item, "=")
		switch {
		case !found || strings.Contains(value, "="):
			return "", nil, false
		case scheme == "t":
			if timestamp != "" || value == "" || len(value) > maxTimestamp || strings.Trim(value, "0123456789") != "" {
				return "", nil, false
			}
			timestamp = value
		case scheme == "v1":
			signatures = append(signatures, value)
		}
	}
	return timestamp, signatures, timestamp != ""
}
