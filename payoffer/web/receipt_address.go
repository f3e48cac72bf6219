package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// receiptID names the page of one payment, /v1/receipt/<id>, to its payer alone:
// base64url of what finds the payment, a full stop, and base64url of its MAC. The
// MAC is over the evidence and not over a row's number, so that the address is the
// same on every instance and after the ledger was put back to an older copy. It is
// shown to the payer and to the operator, and stands in no log and no report.
func receiptID(key []byte, r ledger.Receipt) string {
	return newReceiptID(key, r.Offer, r.Account, receiptName(r))
}

// intentID is the same for a payment by an authorization of which no row is known
// yet.
func intentID(key []byte, offerID, account, payer, nonce string) string {
	return newReceiptID(key, offerID, account, authorizationName(payer, nonce))
}

// receiptName is what finds a payment in its account. That by an authorization is
// found by it also before the chain has it, and after a reorganization, where its
// transaction is another.
func receiptName(r ledger.Receipt) string {
	if r.Nonce != "" {
		return authorizationName(r.Payer, r.Nonce)
	}
	return "r/" + r.ExternalID
}

func authorizationName(payer, nonce string) string {
	return "a/" + strings.ToLower(payer) + "/" + strings.ToLower(nonce)
}

func newReceiptID(key []byte, offerID, account, name string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(name)) + "." + base64.RawURLEncoding.EncodeToString(receiptMAC(key, offerID, account, name))
}

// receiptMAC begins with a zero byte, with which no MAC of a QR address does.
func receiptMAC(key []byte, offerID, account, name string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{"", "receipt", offerID, account, name} {
		mac.Write([]byte(part))
		mac.Write([]byte{0})
	}
	return mac.Sum(nil)[:macSize]
}

// parseReceiptID finds the account, of those that an offer ever had, and the name
// of the payment that an id names; false for any id that was not made with the
// key.
func parseReceiptID(key []byte, offerID string, accounts []string, id string) (account, name string, ok bool) {
	encoded, signature, _ := strings.Cut(id, ".")
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return "", "", false
	}
	mac, err := base64.RawURLEncoding.Strict().DecodeString(signature)
	if err != nil {
		return "", "", false
	}
	for _, account := range accounts {
		if hmac.Equal(mac, receiptMAC(key, offerID, account, string(decoded))) {
			return account, string(decoded), true
		}
	}
	return "", "", false
}

// receiptURL is the absolute address of a payment's page.
func receiptURL(o *offer.Offer, id string) string { return o.URL(offer.PathReceipt + "/" + id) }
