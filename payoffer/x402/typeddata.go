package x402

import (
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// The types of the one structure that is signed (EIP-712 encodeType; the
// structure is that of EIP-3009).
var (
	domainType   = crypto.Keccak256([]byte("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"))
	transferType = crypto.Keccak256([]byte("TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"))
)

// domainHash is the EIP-712 domain separator of a network's USDC.
func domainHash(n offer.Network) []byte {
	return crypto.Keccak256(domainType, crypto.Keccak256([]byte(n.TokenName)), crypto.Keccak256([]byte(n.TokenVersion)),
		fixed32(big.NewInt(n.ChainID)), addressWord(n.USDC))
}

// digest is the EIP-712 hash that EIP-3009 has the payer sign for a token's
// domain. The authorization's form has been checked.
func digest(a authorization, domain []byte) []byte {
	message := crypto.Keccak256(transferType, addressWord(a.From), addressWord(a.To), fixed32(integer(a.Value)),
		fixed32(integer(a.ValidAfter)), fixed32(integer(a.ValidBefore)), common.FromHex(a.Nonce))
	return crypto.Keccak256([]byte{0x19, 0x01}, domain, message)
}

// addressWord is an address as one word of 32 bytes.
func addressWord(address string) []byte {
	return common.LeftPadBytes(common.FromHex(address), 32)
}
