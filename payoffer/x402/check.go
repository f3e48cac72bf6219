package x402

import (
	"bytes"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// Reason codes of local refusals, in the words of the reference facilitator.
const (
	reasonRequirements = "invalid_payment_requirements"
	reasonRecipient    = "invalid_exact_evm_recipient_mismatch"
	reasonValue        = "invalid_exact_evm_payload_authorization_value_mismatch"
	reasonSelf         = "payer_is_payee"
	reasonEarly        = "invalid_exact_evm_payload_authorization_valid_after"
	reasonLate         = "invalid_exact_evm_payload_authorization_valid_before"
	reasonSignature    = "invalid_exact_evm_signature"
)

const (
	// settleMargin is how long an authorization must stay valid, because facilitators require it.
	settleMargin = 6 * time.Second
	// clockSlack is how far a client's clock may be ahead.
	clockSlack = 10 * time.Minute
)

// refusal is the reason why a payment is refused: a code and a sentence.
type refusal struct {
	reason, detail string
	// expired says that the authorization was valid once.
	expired bool
}

// check compares a payment with what this offer accepts and recovers the signer. It returns the rail
// that the payment is for. It does not check times.
func (s *Service) check(p *payment) (*Rail, *refusal) {
	rail := s.match(p)
	if rail == nil {
		return nil, &refusal{reason: reasonRequirements,
			detail: "The payment matches nothing that is accepted here; take scheme, network, asset, amount and payTo from 'accepts'."}
	}
	a := p.authorization
	switch {
	case !strings.EqualFold(a.To, rail.USDC.PayTo):
		return nil, &refusal{reason: reasonRecipient, detail: "The authorization pays another address than 'payTo'."}
	case a.Value != rail.USDC.AmountAtomic():
		return nil, &refusal{reason: reasonValue, detail: "The authorization is for another amount than the price."}
	case strings.EqualFold(a.From, a.To):
		return nil, &refusal{reason: reasonSelf, detail: "The payer is 'payTo' itself; use another wallet."}
	}
	signer, accepted := a.recover(p.signature, rail.terms.domain)
	if signer == common.HexToAddress(a.From) {
		if !accepted {
			return nil, refusedSignature
		}
		p.proven, p.signature = true, keyForm(p.signature)
	}
	return rail, nil
}

func (s *Service) checkTimes(a authorization) *refusal {
	now := s.Now()
	after := func(d time.Duration) *big.Int { return big.NewInt(now.Add(d).Unix()) }
	deadline := integer(a.ValidBefore)
	switch {
	case integer(a.ValidAfter).Cmp(after(0)) > 0:
		return &refusal{reason: reasonEarly, detail: "The authorization is not valid yet."}
	case deadline.Cmp(after(settleMargin)) < 0:
		return &refusal{reasonLate, "The authorization has expired or expires within seconds; sign a new one.", true}
	case s.isTooLong(a):
		return &refusal{reason: reasonLate, detail: fmt.Sprintf("The authorization is valid for too long; sign one for %d seconds.", maxTimeoutSeconds)}
	}
	return nil
}

// isTooLong reports whether an authorization is valid for longer than a quote plus clockSlack.
func (s *Service) isTooLong(a authorization) bool {
	latest := s.Now().Add(clockSlack + maxTimeoutSeconds*time.Second).Unix()
	return integer(a.ValidBefore).Cmp(big.NewInt(latest)) > 0
}

// match finds the rail that a payload names, or nil.
func (s *Service) match(p *payment) *Rail {
	for i := range s.Rails {
		rail := &s.Rails[i]
		want := &rail.terms.accepted
		if p.accepted.Scheme != schemeExact || p.network != want.Network || !strings.EqualFold(p.asset, want.Asset) {
			continue
		}
		// Version 1 payloads have only scheme and network.
		if p.version == 1 || (p.accepted.Amount == want.Amount && strings.EqualFold(p.accepted.PayTo, want.PayTo)) {
			return rail
		}
	}
	return nil
}

// recover returns the signer of a 65-byte signature (the zero address if there is none), and whether
// tokens accept the signature: they refuse an s in the upper half.
func (a *authorization) recover(signature, domain []byte) (signer common.Address, accepted bool) {
	if len(signature) != minSignature {
		return signer, false
	}
	signature = bytes.Clone(signature)
	if signature[64] >= 27 {
		signature[64] -= 27
	}
	r, sValue := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:64])
	if !crypto.ValidateSignatureValues(signature[64], r, sValue, false) {
		return signer, false
	}
	public, err := crypto.SigToPub(digest(*a, domain), signature)
	if err != nil {
		return signer, false
	}
	return crypto.PubkeyToAddress(*public), crypto.ValidateSignatureValues(signature[64], r, sValue, true)
}

// isSigned reports whether the payer's key made a signature that tokens accept.
func (a *authorization) isSigned(signature, domain []byte) bool {
	signer, accepted := a.recover(signature, domain)
	return accepted && signer == common.HexToAddress(a.From)
}

// keyForm returns a key's signature with a last byte of 27 or 28, as tokens require. Some wallets
// write 0 or 1.
func keyForm(signature []byte) []byte {
	if len(signature) != minSignature || signature[64] > 1 {
		return signature
	}
	signature = bytes.Clone(signature)
	signature[64] += 27
	return signature
}

// The EIP-712 types of the structure that EIP-3009 signs.
var (
	domainType   = crypto.Keccak256([]byte("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"))
	transferType = crypto.Keccak256([]byte("TransferWithAuthorization(address from,address to,uint256 value," +
		"uint256 validAfter,uint256 validBefore,bytes32 nonce)"))
)

// domainHash is the EIP-712 domain separator of a network's USDC.
func domainHash(n offer.Network) []byte {
	return crypto.Keccak256(domainType, crypto.Keccak256([]byte(n.TokenName)), crypto.Keccak256([]byte(n.TokenVersion)),
		fixed32(big.NewInt(n.ChainID)), addressWord(n.USDC))
}

// digest is the EIP-712 hash of a checked authorization for a token's domain.
func digest(a authorization, domain []byte) []byte {
	message := crypto.Keccak256(transferType, addressWord(a.From), addressWord(a.To), fixed32(integer(a.Value)),
		fixed32(integer(a.ValidAfter)), fixed32(integer(a.ValidBefore)), common.FromHex(a.Nonce))
	return crypto.Keccak256([]byte{0x19, 0x01}, domain, message)
}

func addressWord(address string) []byte {
	return common.LeftPadBytes(common.FromHex(address), 32)
}
