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

// receiptID is the secret id of the page of one payment, /v1/receipt/<id>, for the payer and the operator: base64url
// of the payment's name in its account, a full stop, and base64url of its MAC. It never appears in a log or report.
// It does not depend on the row's number, so that it is the same on every instance and after a restore.
func receiptID(key []byte, r ledger.Receipt) string {
	return newReceiptID(key, r.Offer, r.Account, r.Name())
}

// intentID is the id for a payment by an authorization without a receipt.
func intentID(key []byte, offerID, account, payer, nonce string) string {
	return newReceiptID(key, offerID, account, ledger.AuthorizationName(payer, nonce))
}

func newReceiptID(key []byte, offerID, account, name string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(name)) + "." + base64.RawURLEncoding.EncodeToString(receiptMAC(key, offerID, account, name))
}

// receiptMAC begins with a zero byte, unlike the MAC of a QR address.
func receiptMAC(key []byte, offerID, account, name string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{"", "receipt", offerID, account, name} {
		mac.Write([]byte(part))
		mac.Write([]byte{0})
	}
	return mac.Sum(nil)[:macSize]
}

// parseReceiptID finds the account and the name of a payment by its id; false for an id that was not made with the
// key. accounts are all that the offer ever had. Whole ids are compared in constant time: an id has one spelling.
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

// ReceiptURL is the URL of the page of a receipt, a secret of its payer and of the operator; empty until the key is
// loaded.
func (s *Server) ReceiptURL(r ledger.Receipt) string {
	key := s.QRKey()
	if key == nil {
		return ""
	}
	return s.Offer.URL(offer.PathReceipt + "/" + receiptID(key, r))
}

// PaidURL is where the payer of an authorization sees its outcome: the receipt's page, or the report while the key is
// not loaded and the report is public; empty if the request does not prove that the payer sent it, because anyone can rebuild a settled payload
// from the calldata.
func (s *Server) PaidURL(o x402.Outcome) string {
	key := s.QRKey()
	switch {
	case !o.ByPayer:
		return ""
	case o.Account != "" && key != nil:
		return s.Offer.URL(offer.PathReceipt + "/" + intentID(key, s.Offer.ID, o.Account, o.Payer, o.Intent))
	case o.Status == x402.Settled && !s.Offer.PrivateReceived:
		return s.Offer.URL(offer.PathReceived)
	}
	return ""
}
