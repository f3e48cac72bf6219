package chain

import (
	"crypto/ecdsa"
	"crypto/rand"
	"encoding/json"
	"math/big"
	"strconv"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"
	"github.com/stretchr/testify/require"
)

// Authorization is an EIP-3009 authorization to transfer USDC.
type Authorization struct {
	// Network is where it can be spent.
	Network  Network
	From, To common.Address
	// Value is in atomic units.
	Value int64
	// ValidAfter and ValidBefore are Unix times in seconds, both exclusive.
	ValidAfter, ValidBefore int64
	// Nonce is any value that From has not used before.
	Nonce common.Hash
}

// NewAuthorization returns an authorization for Base Sepolia with a random nonce that is valid from an hour ago for five
// more minutes.
func NewAuthorization(t testing.TB, from, to common.Address, value int64) Authorization {
	t.Helper()
	a := Authorization{Network: BaseSepolia, From: from, To: to, Value: value}
	a.ValidAfter = time.Now().Add(-time.Hour).Unix()
	a.ValidBefore = time.Now().Add(5 * time.Minute).Unix()
	_, err := rand.Read(a.Nonce[:])
	require.NoError(t, err)
	return a
}

// Sign returns the signature that lets anybody spend the authorization: the 65 bytes r, s and v (27 or 28).
func (a Authorization) Sign(t testing.TB, key *ecdsa.PrivateKey) hexutil.Bytes {
	t.Helper()
	return sign(t, key, a.digest(t))
}

// digest is what the payer signs (EIP-712).
func (a Authorization) digest(t testing.TB) []byte {
	t.Helper()
	return a.Network.digest(t, "TransferWithAuthorization", []apitypes.Type{
		{Name: "from", Type: "address"},
		{Name: "to", Type: "address"},
		{Name: "value", Type: "uint256"},
		{Name: "validAfter", Type: "uint256"},
		{Name: "validBefore", Type: "uint256"},
		{Name: "nonce", Type: "bytes32"},
	}, apitypes.TypedDataMessage{
		"from":        a.From.Hex(),
		"to":          a.To.Hex(),
		"value":       big.NewInt(a.Value),
		"validAfter":  big.NewInt(a.ValidAfter),
		"validBefore": big.NewInt(a.ValidBefore),
		"nonce":       a.Nonce.Hex(),
	})
}

// Call encodes the transaction that spends the authorization, by the overload that takes the signature as bytes.
func (a Authorization) Call(t testing.TB, signature []byte) []byte {
	t.Helper()
	return Pack(t, "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)",
		a.From, a.To, big.NewInt(a.Value), big.NewInt(a.ValidAfter), big.NewInt(a.ValidBefore), a.Nonce, signature)
}

// Cancel encodes the transaction that makes the authorization worthless, signed by the key of From.
func (a Authorization) Cancel(t testing.TB, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	signature := sign(t, key, a.Network.digest(t, "CancelAuthorization", []apitypes.Type{
		{Name: "authorizer", Type: "address"},
		{Name: "nonce", Type: "bytes32"},
	}, apitypes.TypedDataMessage{"authorizer": a.From.Hex(), "nonce": a.Nonce.Hex()}))
	return Pack(t, "cancelAuthorization(address,bytes32,bytes)", a.From, a.Nonce, []byte(signature))
}

// MarshalJSON writes the authorization as x402 payloads hold it: every number a decimal string.
func (a Authorization) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{
		"from":        a.From.Hex(),
		"to":          a.To.Hex(),
		"value":       strconv.FormatInt(a.Value, 10),
		"validAfter":  strconv.FormatInt(a.ValidAfter, 10),
		"validBefore": strconv.FormatInt(a.ValidBefore, 10),
		"nonce":       a.Nonce.Hex(),
	})
}

// digest is the EIP-712 hash for the network's USDC by go-ethereum's code, so that it can prove ours.
func (n Network) digest(t testing.TB, name string, fields []apitypes.Type, message apitypes.TypedDataMessage) []byte {
	t.Helper()
	digest, _, err := apitypes.TypedDataAndHash(apitypes.TypedData{
		Types: apitypes.Types{
			"EIP712Domain": {
				{Name: "name", Type: "string"},
				{Name: "version", Type: "string"},
				{Name: "chainId", Type: "uint256"},
				{Name: "verifyingContract", Type: "address"},
			},
			name: fields,
		},
		PrimaryType: name,
		Domain: apitypes.TypedDataDomain{
			Name:              n.Token,
			Version:           "2",
			ChainId:           math.NewHexOrDecimal256(n.ID),
			VerifyingContract: n.USDC.Hex(),
		},
		Message: message,
	})
	require.NoError(t, err)
	return digest
}

func sign(t testing.TB, key *ecdsa.PrivateKey, digest []byte) hexutil.Bytes {
	t.Helper()
	signature, err := crypto.Sign(digest, key)
	require.NoError(t, err)
	signature[crypto.RecoveryIDOffset] += 27
	return signature
}
