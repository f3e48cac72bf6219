package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// receiptID names the page of one payment, /v1/receipt/<id>, to its payer alone:
// base64url of what finds the payment in its account, a full stop, and base64url of
// its MAC. The MAC is over the evidence and not over a row's number, so that the
// address is the same on every instance and after the ledger was put back to an
// older copy. It is shown to the payer and to the operator, and stands in no log
// and no report.
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
	return byReference + r.ExternalID
}

func authorizationName(payer, nonce string) string {
	return byAuthorization + strings.ToLower(payer) + "/" + strings.ToLower(nonce)
}

// Names of payments begin with how they are found: by the payer and the nonce of an
// authorization, or by what identifies the evidence.
const byAuthorization, byReference = "a/", "r/"

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
// key. Ids are compared whole, in constant time: an id has one spelling.
func parseReceiptID(key []byte, offerID string, accounts []ledger.Account, id string) (account, name string, ok bool) {
	encoded, _, _ := strings.Cut(id, ".")
	decoded, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return "", "", false
	}
	for _, a := range accounts {
		if hmac.Equal([]byte(id), []byte(newReceiptID(key, offerID, a.ID, string(decoded)))) {
			return a.ID, string(decoded), true
		}
	}
	return "", "", false
}

// ReceiptURL is the absolute address of the page of a receipt, a secret of its payer
// and of the operator; empty until the key is loaded.
func (s *Server) ReceiptURL(r ledger.Receipt) string {
	key := s.QRKey()
	if key == nil {
		return ""
	}
	return s.Offer.URL(offer.PathReceipt + "/" + receiptID(key, r))
}

// PaidURL is where the payer of an authorization follows what becomes of it: its
// receipt's page, or the report where that has no address yet. It is empty where
// the attempt may not be told of it. Who rebuilds a settled payload of the calldata
// of its transaction is told as its payer is, and may be: of such a payment the page
// holds nothing but what the chain, /v1/received and the configuration show everybody,
// and what is signed of it names the payer, for whose key a verifier has to ask.
func (s *Server) PaidURL(o x402.Outcome) string {
	key := s.QRKey()
	switch {
	case o.Account != "" && key != nil:
		return s.Offer.URL(offer.PathReceipt + "/" + intentID(key, s.Offer.ID, o.Account, o.Payer, o.Intent))
	case o.Status == x402.Settled:
		return s.Offer.URL(offer.PathReceived)
	}
	return ""
}
