package x402

import (
	"crypto/ecdsa"
	"crypto/rand"
	"strconv"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Authorized is a signed EIP-3009 authorization: the payload of the scheme "exact" on EVM chains.
// Anyone who has it can send the money to the payee, once, until it ends.
type Authorized struct {
	Signature     string        `json:"signature" jsonschema:"The payer's EIP-712 signature of TransferWithAuthorization (EIP-3009)."`
	Authorization authorization `json:"authorization" jsonschema:"The EIP-3009 authorization that is signed."`
}

// Authorize signs a transfer of an amount (atomic units of the network's USDC) with a random nonce.
func Authorize(key *ecdsa.PrivateKey, n offer.Network, to string, amount int64, until time.Time) Authorized {
	var nonce [32]byte
	rand.Read(nonce[:]) // never fails
	a := authorization{
		From: crypto.PubkeyToAddress(key.PublicKey).Hex(), To: to, Value: strconv.FormatInt(amount, 10),
		// 0 is before the time of every clock.
		ValidAfter: "0", ValidBefore: strconv.FormatInt(until.Unix(), 10), Nonce: hexutil.Encode(nonce[:]),
	}
	return Authorized{hexutil.Encode(a.sign(key, domainHash(n))), a}
}

// sign makes the payer's signature, as tokens require it.
func (a authorization) sign(key *ecdsa.PrivateKey, domain []byte) []byte {
	signature, _ := crypto.Sign(digest(a, domain), key) // never fails for a digest of 32 bytes
	return keyForm(signature)
}

// Signs reports whether the payer's key signed it for a network's USDC. Signatures of contract wallets
// need the chain and are not recognized.
func (a Authorized) Signs(n offer.Network) bool {
	signature, err := hexutil.Decode(a.Signature)
	return err == nil && a.Authorization.check() == nil && a.Authorization.isSigned(signature, domainHash(n))
}
