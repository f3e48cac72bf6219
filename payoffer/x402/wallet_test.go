package x402

import (
	"bytes"
	"encoding/hex"
	"math/big"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// wrappingABI is what an ERC-6492 signature encodes before its suffix.
var wrappingABI = func() abi.Arguments {
	var arguments abi.Arguments
	for _, name := range []string{"address", "bytes", "bytes"} {
		kind, err := abi.NewType(name, "", nil)
		if err != nil {
			panic(err)
		}
		arguments = append(arguments, abi.Argument{Type: kind})
	}
	return arguments
}()

// wrapping is an ERC-6492 signature as go-ethereum encodes it.
func wrapping(factory, calldata, signature []byte) []byte {
	body, err := wrappingABI.Pack(common.BytesToAddress(factory), calldata, signature)
	if err != nil {
		panic(err)
	}
	return append(body, wrappedSuffix...)
}

// walletSignature is a payment with the signature of a contract wallet.
func walletSignature(t testing.TB, b *buyer, signature []byte) []byte {
	signed := *b
	signed.signature = "0x" + hex.EncodeToString(signature)
	return signed.v2(t)
}

var factory = bytes.Repeat([]byte{0xfa}, 20)

func TestSignaturesOfWallets(t *testing.T) {
	inner := bytes.Repeat([]byte{7}, 65)
	for name, signature := range map[string][]byte{
		"ERC-1271, 66 bytes":                     make([]byte, 66),
		"ERC-1271, several owners":               bytes.Repeat([]byte{0xab}, 5*65),
		"ERC-1271, the longest":                  bytes.Repeat([]byte{0xab}, maxSignature),
		"ERC-1271 with the suffix in the middle": slices.Concat(make([]byte, 64), wrappedSuffix, []byte{0}),
		"ERC-6492":                               wrapping(factory, []byte("deploy it"), inner),
		"ERC-6492 around one byte":               wrapping(factory, make([]byte, 32), []byte{1}),
		"ERC-6492 without calldata":              wrapping(factory, nil, inner),
		"ERC-6492 without a factory":             wrapping(make([]byte, 20), nil, inner),
		"ERC-6492, whole words":                  wrapping(factory, make([]byte, 64), make([]byte, 96)),
	} {
		require.NoError(t, checkSignature(signature), name)
		_, err := decodePayment(walletSignature(t, newBuyer(1), signature))
		require.NoError(t, err, name)
	}
}

func TestSignaturesOfNoWallet(t *testing.T) {
	valid := wrapping(factory, []byte("deploy it"), bytes.Repeat([]byte{7}, 65))
	// changed is valid with another byte, or with another word where the last
	// byte of one is named.
	changed := func(at int, value byte) []byte {
		other := bytes.Clone(valid)
		other[at] = value
		return other
	}
	spliced := func(at int, more ...byte) []byte { return slices.Insert(bytes.Clone(valid), at, more...) }
	end := len(valid) - len(wrappedSuffix)
	huge := wrapping(factory, make([]byte, 256), []byte{1})
	huge[96] = 1
	for name, signature := range map[string][]byte{
		"64 bytes":                             make([]byte, 64),
		"too long":                             make([]byte, maxSignature+1),
		"too long and wrapped":                 wrapping(factory, make([]byte, maxSignature), []byte{1}),
		"the attack":                           append(bytes.Repeat([]byte{0xff}, 96), wrappedSuffix...),
		"the suffix behind zeros":              append(make([]byte, 96), wrappedSuffix...),
		"the suffix behind 33 bytes":           append(make([]byte, 33), wrappedSuffix...),
		"the suffix behind half a head":        append(make([]byte, 64), wrappedSuffix...),
		"the suffix twice":                     append(bytes.Clone(valid), wrappedSuffix...),
		"wrapped twice":                        wrapping(factory, nil, valid),
		"an empty signature inside":            wrapping(factory, []byte("deploy it"), nil),
		"an address of more than 20 bytes":     changed(0, 1),
		"an offset that is short":              changed(63, 0x40),
		"an offset that is long":               changed(63, 0x80),
		"an offset without end":                changed(32, 0x80),
		"the second offset at the first":       changed(95, 0x60),
		"the second offset behind the end":     changed(94, 0x7f),
		"a length behind the end":              changed(126, 0x7f),
		"a length without end":                 changed(96, 0xff),
		"a length of 2^248 and 256":            huge,
		"bytes after the calldata":             changed(159, 1),
		"the second length behind the end":     changed(190, 0x7f),
		"the second length short":              changed(191, 0),
		"bytes after the signature":            changed(end-1, 1),
		"a word more":                          spliced(end, make([]byte, 32)...),
		"a byte more":                          spliced(end, 0),
		"a word less":                          slices.Delete(bytes.Clone(valid), end-32, end),
		"the values in the other order":        swapped(valid),
		"both offsets at one value that is it": aliased(),
	} {
		require.Error(t, checkSignature(signature), name)
		_, err := decodePayment(walletSignature(t, newBuyer(1), signature))
		require.ErrorContains(t, err, "'payload.signature'", name)
	}
}

// swapped has the signature first and the calldata behind it: every reader takes
// it, and no encoder writes it.
func swapped(valid []byte) []byte {
	body := bytes.TrimSuffix(valid, wrappedSuffix)
	first, second := body[96:160], body[160:]
	head := slices.Concat(body[:32], word(big.NewInt(int64(96+len(second)))), word(big.NewInt(96)))
	return slices.Concat(head, second, first, wrappedSuffix)
}

func aliased() []byte {
	value := slices.Concat(word(big.NewInt(32)), bytes.Repeat([]byte{9}, 32))
	return slices.Concat(make([]byte, 12), factory, word(big.NewInt(96)), word(big.NewInt(96)), value, wrappedSuffix)
}

func TestAMalformedSignatureReachesNoFacilitator(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		f := payoffertest.NewPipedFacilitator(t, "one")
		s := newShop(t, setup{facilitators: one(f)})
		attack := append(bytes.Repeat([]byte{0xff}, 96), wrappedSuffix...)
		require.Equal(t, Malformed, s.pay(walletSignature(t, newBuyer(1), attack)).Status)
		require.Empty(t, f.Calls(verifyCall))
	})
}

// FuzzSignatureShape compares with go-ethereum: what is taken for ERC-6492 is
// what its encoder writes.
func FuzzSignatureShape(f *testing.F) {
	f.Add(bytes.TrimSuffix(wrapping(factory, []byte("deploy it"), bytes.Repeat([]byte{7}, 65)), wrappedSuffix))
	f.Add(bytes.TrimSuffix(swapped(wrapping(factory, []byte("deploy it"), []byte("signature"))), wrappedSuffix))
	f.Add(bytes.TrimSuffix(aliased(), wrappedSuffix))
	f.Add(bytes.Repeat([]byte{0xff}, 96))
	f.Add(make([]byte, 160))
	f.Fuzz(func(t *testing.T, body []byte) {
		signature := append(bytes.Clone(body), wrappedSuffix...)
		want := false
		if values, err := wrappingABI.Unpack(body); err == nil && len(signature) <= maxSignature {
			inner := values[2].([]byte)
			again, err := wrappingABI.Pack(values...)
			require.NoError(t, err)
			want = bytes.Equal(again, body) && len(inner) > 0 && !bytes.HasSuffix(inner, wrappedSuffix)
		}
		require.Equal(t, want, checkSignature(signature) == nil, "%x", body)
	})
}
