package x402

import (
	"encoding/hex"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// referenceDigest is go-ethereum's own encoding of typed data.
func referenceDigest(t *testing.T, a authorization, network offer.Network) []byte {
	t.Helper()
	hash, _, err := apitypes.TypedDataAndHash(apitypes.TypedData{
		Types: apitypes.Types{
			"EIP712Domain": {
				{Name: "name", Type: "string"}, {Name: "version", Type: "string"},
				{Name: "chainId", Type: "uint256"}, {Name: "verifyingContract", Type: "address"},
			},
			"TransferWithAuthorization": {
				{Name: "from", Type: "address"}, {Name: "to", Type: "address"}, {Name: "value", Type: "uint256"},
				{Name: "validAfter", Type: "uint256"}, {Name: "validBefore", Type: "uint256"}, {Name: "nonce", Type: "bytes32"},
			},
		},
		PrimaryType: "TransferWithAuthorization",
		Domain: apitypes.TypedDataDomain{
			Name: network.TokenName, Version: network.TokenVersion,
			ChainId: math.NewHexOrDecimal256(network.ChainID), VerifyingContract: network.USDC,
		},
		Message: apitypes.TypedDataMessage{
			"from": a.From, "to": a.To, "value": a.Value,
			"validAfter": a.ValidAfter, "validBefore": a.ValidBefore, "nonce": a.Nonce,
		},
	})
	require.NoError(t, err)
	return hash
}

func TestDigestIsThatOfTheReferenceEncoder(t *testing.T) {
	random := rand.New(rand.NewPCG(42, 1))
	bytes := func(n int) string {
		raw := make([]byte, n)
		for i := range raw {
			raw[i] = byte(random.Uint32())
		}
		return "0x" + hex.EncodeToString(raw)
	}
	number := func() string {
		n, _ := new(big.Int).SetString(bytes(random.IntN(33))[2:]+"0", 16)
		return n.Rsh(n, 4).String()
	}
	for _, name := range []string{"base", "base-sepolia", "celo", "arbitrum"} {
		network, err := offer.LookupNetwork(name)
		require.NoError(t, err)
		for range 50 {
			a := authorization{bytes(20), bytes(20), number(), number(), number(), bytes(32)}
			require.Equal(t, referenceDigest(t, a, network), digest(a, domainHash(network)), "%+v", a)
			shouted := a
			shouted.Nonce = "0x" + strings.ToUpper(a.Nonce[2:])
			require.Equal(t, digest(a, domainHash(network)), digest(shouted, domainHash(network)))
		}
	}
}
