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

// Authorized is a signed EIP-3009 authorization as a buyer sends it: the payload
// of the scheme "exact" on EVM chains. Whoever has it can move the money to its
// payee, once and until it ends.
type Authorized struct {
	Signature     string        `json:"signature"`
	Authorization authorization `json:"authorization"`
}

// Authorize lets anyone move an amount in atomic units of a network's USDC from
// the key's account to an address, until a time. The nonce is random.
func Authorize(key *ecdsa.PrivateKey, n offer.Network, to string, amount int64, until time.Time) Authorized {
	var nonce [32]byte
	rand.Read(nonce[:]) // never fails
	a := authorization{
		From: crypto.PubkeyToAddress(key.PublicKey).Hex(), To: to, Value: strconv.FormatInt(amount, 10),
		// From the beginning of time: no clock can be too early for it.
		ValidAfter: "0", ValidBefore: strconv.FormatInt(until.Unix(), 10), Nonce: hexutil.Encode(nonce[:]),
	}
	signature, _ := crypto.Sign(digest(a, domainHash(n)), key) // never fails for a digest of 32 bytes
	signature[64] += 27                                        // as the token wants it
	return Authorized{hexutil.Encode(signature), a}
}

// Signs reports whether it is signed by its payer for a network's USDC. That of a
// contract wallet, which the chain alone can check, is not.
func (a Authorized) Signs(n offer.Network) bool {
	signature, err := hexutil.Decode(a.Signature)
	return err == nil && a.Authorization.check() == nil && a.Authorization.isSigned(signature, domainHash(n))
}
