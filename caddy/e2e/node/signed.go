package node

import (
	"context"
	"crypto/ecdsa"
	"testing"
)

// Signed is what a buyer has of a seller's signatures.
type Signed struct {
	// Quote and Settlement are the values of PAYMENT-REQUIRED and PAYMENT-RESPONSE, and Body is that of the quote.
	Quote, Body, Settlement string
}

// BuySigned lets the official client of version 2 buy at an address, and keeps what was signed.
func BuySigned(t testing.TB, url string, key *ecdsa.PrivateKey) Signed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var signed Signed
	readLine(t, start(ctx, t, "buy-signed.mjs", "URL="+url, "PRIVATE_KEY="+privateKey(key)), &signed)
	return signed
}

// Verified is what the official verifier says of signatures.
type Verified struct {
	// Error is set when anything could not be verified.
	Error string
	// Offers and Receipt are the verified payloads.
	Offers  []map[string]any
	Receipt map[string]any
	// Matches says that the receipt is for the first offer and the payer.
	Matches bool
	// Bazaar are mistakes of the bazaar extension.
	Bazaar []string
	// PaymentID is what a client that names its payment calls it.
	PaymentID string
}

// VerifySigned lets the official verifier check signatures.
func VerifySigned(t testing.TB, signed Signed, payer string) Verified {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var verified Verified
	readLine(t, start(ctx, t, "verify-signed.mjs", "QUOTE="+signed.Quote, "BODY="+signed.Body, "SETTLEMENT="+signed.Settlement, "PAYER="+payer), &verified)
	return verified
}
