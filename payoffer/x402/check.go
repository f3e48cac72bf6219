package x402

import (
	"bytes"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
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

// declined is the assessment of a payment that is wrong.
func declined(reason, detail string) *assessment {
	return &assessment{event: accounting.EventDeclined, reason: reason, detail: detail}
}

// check compares a payment with what this offer accepts and recovers the signer. It returns the rail
// that the payment is for. It does not check times.
func (s *Service) check(p *payment) (*Rail, *assessment) {
	rail, differs := s.match(p)
	if rail == nil {
		return nil, declined(reasonRequirements, differs+". Take all values from one entry of 'accepts' and sign again.")
	}
	a := p.authorization
	switch payTo, price := rail.USDC.PayTo, rail.USDC.AmountAtomic(); {
	case !strings.EqualFold(a.To, payTo):
		return nil, declined(reasonRecipient, "authorization.to is "+a.To+", expected "+payTo+". Sign again with that address.")
	case a.Value != price:
		return nil, declined(reasonValue, "authorization.value is "+a.Value+", expected "+price+". Sign again with that value.")
	case strings.EqualFold(a.From, a.To):
		return nil, declined(reasonSelf, "authorization.from is "+a.From+", which is also the payee. Pay from another wallet.")
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

// checkTimes returns why a payment cannot be sent now because of its times, or nil.
func (s *Service) checkTimes(p *payment) *assessment {
	now, clock := s.Now().Add(p.behind), "this server's clock"
	if p.behind > 0 {
		clock = "the newest block"
	}
	clock = fmt.Sprintf(", and %s is at %d. Sign a new one with validAfter 0 and a validBefore %d seconds from now.", clock, now.Unix(), maxTimeoutSeconds)
	switch {
	case seconds(p.authorization.ValidAfter) > now.Unix():
		return declined(reasonEarly, "authorization.validAfter is "+p.authorization.ValidAfter+clock)
	case p.hasEnded(s.Now()), p.isTooLong(s.Now()):
		return declined(reasonLate, "authorization.validBefore is "+p.authorization.ValidBefore+clock)
	}
	return nil
}

// hasEnded reports whether the authorization ends too soon to be settled, by the clock or the newest block.
func (p *payment) hasEnded(now time.Time) bool {
	return p.validBefore() < now.Add(p.behind+settleMargin).Unix()
}

// isTooLong reports whether the authorization is valid for longer than a quote plus clockSlack.
func (p *payment) isTooLong(now time.Time) bool {
	return p.validBefore() > now.Add(clockSlack+maxTimeoutSeconds*time.Second).Unix()
}

// validBefore is the end of the authorization in Unix seconds.
func (p *payment) validBefore() int64 { return seconds(p.authorization.ValidBefore) }

// seconds reads a string that matches integerForm, as the largest int64 if it is larger.
func seconds(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// match finds the rail that a payload names. Without one, differs names the first field that differs from the
// rails with which the payload agrees longest.
func (s *Service) match(p *payment) (rail *Rail, differs string) {
	longest, differs := -1, "This offer takes no x402 payment"
	for i := range s.Rails {
		want, got := &s.Rails[i].terms.accepted, p.accepted
		if p.version == 1 { // it has only scheme and network
			got.PayTo, got.Amount = want.PayTo, want.Amount
		}
		fields := [][3]string{
			{"scheme", got.Scheme, want.Scheme}, {"network", got.Network, networkIn(p.version, want.Network)},
			{"asset", p.asset, strings.ToLower(want.Asset)}, {"payTo", strings.ToLower(got.PayTo), strings.ToLower(want.PayTo)},
			{"amount", got.Amount, want.Amount},
		}
		switch n := slices.IndexFunc(fields, func(f [3]string) bool { return f[1] != f[2] }); {
		case n < 0:
			return &s.Rails[i], ""
		case n > longest:
			longest, differs = n, fmt.Sprintf("%s is %.80q, expected %q", fields[n][0], fields[n][1], fields[n][2])
		case n == longest:
			differs += " or " + strconv.Quote(fields[n][2])
		}
	}
	return nil, differs
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

// keyForm returns a key's signature with a last byte of 27 or 28, as tokens require. Some wallets write 0 or 1.
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

func fixed32(n *big.Int) []byte { return n.FillBytes(make([]byte, 32)) }
