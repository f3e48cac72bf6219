// Package gate decides who may pass a gated route. Three things prove a payment: the cookie
// of a browser, the code in an entry link, and the header of a charged x402 or MPP payment.
// The ledger says whether the payment still opens the gate.
package gate

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// Uses of a sealed text. A text of one use is worthless for another.
const (
	useCookie = "cookie"
	useCode   = "code"
	useBack   = "back"
	// useReplace is a code that the payer of a browser agreed to use instead of its cookie.
	useReplace = "replace"
)

const (
	separator = "\x00"
	macSize   = 16 // bytes
)

// seal makes a text that only a server with the key can make: base64url of the fields, a
// full stop, and base64url of their MAC. No field contains a zero byte.
func seal(key []byte, use string, fields ...string) string {
	text := strings.Join(fields, separator)
	mac := hmac.New(sha256.New, key)
	// A MAC of this package begins with a zero byte, unlike that of a QR address.
	mac.Write([]byte(separator + "gate " + use + separator + text))
	return base64.RawURLEncoding.EncodeToString([]byte(text)) + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:macSize])
}

// open returns the fields of a sealed text; false if it was not made with the key for this
// use. A text has one spelling.
func open(key []byte, use, sealed string, fields int) ([]string, bool) {
	encoded, _, _ := strings.Cut(sealed, ".")
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || len(key) == 0 {
		return nil, false
	}
	found := strings.Split(string(text), separator)
	return found, len(found) == fields && hmac.Equal([]byte(sealed), []byte(seal(key, use, found...)))
}
