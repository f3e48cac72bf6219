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
	// settleMargin is how long an authorization must stay valid for a
	// facilitator to take it.
	settleMargin = 6 * time.Second
	// clockSlack is how far a client's clock may be ahead.
	clockSlack = 10 * time.Minute
)

// refusal says why nothing is charged: a code for programs and a sentence.
type refusal struct {
	reason, detail string
	// expired says that the authorization was good once.
	expired bool
}

// check begins to look at a payment, before anyone is called: at all but its times. To
// recover a key takes as long as to ask the ledger, and is done beside that. checked waits
// for it, and returns the rail that the payment is for; what the ledger knows needs no
// answer.
func (s *Service) check(p *payment) (checked func() (*Rail, *refusal)) {
	rail, refused := s.compare(p)
	if refused != nil {
		return func() (*Rail, *refusal) { return nil, refused }
	}
	recovered := make(chan recovery, 1)
	go func() { recovered <- p.authorization.recover(p.signature, rail.terms.domain) }()
	return func() (*Rail, *refusal) {
		switch r := <-recovered; {
		case r.signer != common.HexToAddress(p.authorization.From):
		case !r.taken:
			return nil, refusedSignature
		default:
			p.proven, p.signature = true, keyForm(p.signature)
		}
		return rail, nil
	}
}

// compare compares a payment with what this offer accepts, which costs nothing.
func (s *Service) compare(p *payment) (*Rail, *refusal) {
	rail := s.match(p)
	if rail == nil {
		return nil, &refusal{reason: reasonRequirements, detail: "The payment matches nothing that is accepted here; take scheme, network, asset, amount and payTo from 'accepts'."}
	}
	a := p.authorization
	switch {
	case !strings.EqualFold(a.To, rail.USDC.PayTo):
		return nil, &refusal{reason: reasonRecipient, detail: "The authorization pays another address than 'payTo'."}
	case a.Value != rail.USDC.AmountAtomic():
		return nil, &refusal{reason: reasonValue, detail: "The authorization is for another amount than the price."}
	case strings.EqualFold(a.From, a.To):
		return nil, &refusal{reason: reasonSelf, detail: "The payer is 'payTo' itself, and nobody can pay himself; use another wallet."}
	}
	return rail, nil
}

// checkTimes checks that an authorization can be settled now.
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

// isTooLong reports whether an authorization is valid for longer than a quote
// and any clock's error.
func (s *Service) isTooLong(a authorization) bool {
	latest := s.Now().Add(clockSlack + maxTimeoutSeconds*time.Second).Unix()
	return integer(a.ValidBefore).Cmp(big.NewInt(latest)) > 0
}

// match finds the rail that a payload names. Addresses compare without case.
func (s *Service) match(p *payment) *Rail {
	for i := range s.Rails {
		rail := &s.Rails[i]
		want := &rail.terms.accepted
		if p.accepted.Scheme != schemeExact || p.network != want.Network || !strings.EqualFold(p.asset, want.Asset) {
			continue
		}
		// Version 1 echoes no more than scheme and network.
		if p.version == 1 || (p.accepted.Amount == want.Amount && strings.EqualFold(p.accepted.PayTo, want.PayTo)) {
			return rail
		}
	}
	return nil
}

// recovery is what a signature says if it is one of a key: its signer, and whether
// token contracts take it. They refuse an s in the upper half. The signer is the zero
// address, which has no key, if there is none.
type recovery struct {
	signer common.Address
	taken  bool
}

// recover recovers the signer of a 65-byte signature.
func (a *authorization) recover(signature, domain []byte) recovery {
	if len(signature) != minSignature {
		return recovery{}
	}
	signature = append([]byte(nil), signature...)
	if signature[64] >= 27 {
		signature[64] -= 27
	}
	r, sValue := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:64])
	if !crypto.ValidateSignatureValues(signature[64], r, sValue, false) {
		return recovery{}
	}
	public, err := crypto.SigToPub(digest(*a, domain), signature)
	if err != nil {
		return recovery{}
	}
	return recovery{crypto.PubkeyToAddress(*public), crypto.ValidateSignatureValues(signature[64], r, sValue, true)}
}

// isSigned reports whether a signature is one of the payer's key that tokens take.
func (a *authorization) isSigned(signature, domain []byte) bool {
	r := a.recover(signature, domain)
	return r.taken && r.signer == common.HexToAddress(a.From)
}

// keyForm is a key's signature as the token takes it, whose last byte is 27 or 28. Some
// wallets write 0 and 1.
func keyForm(signature []byte) []byte {
	if len(signature) != minSignature || signature[64] > 1 {
		return signature
	}
	signature = bytes.Clone(signature)
	signature[64] += 27
	return signature
}

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
