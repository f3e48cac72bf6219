package x402

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	// minSignature is the length of an ECDSA signature in bytes.
	minSignature = 65
	// maxSignature bounds that of a contract wallet. The longest ones in use,
	// several passkeys (about 700 bytes each) of an account that is still to be
	// deployed (1 to 2 KB), stay below half of it, and each byte is paid for as
	// calldata by whoever settles.
	maxSignature = 8 << 10
)

// wrappedSuffix ends the signature of a wallet that is not deployed yet
// (ERC-6492).
var wrappedSuffix = bytes.Repeat([]byte{0x64, 0x92}, 16)

// checkSignature checks the shape of a signature; whose it is remains to be
// seen. 65 bytes are ECDSA's. Longer ones are a contract's to read (ERC-1271)
// and may be any bytes, but for those that carry the mark of ERC-6492: a
// facilitator unwraps them before it knows whose they are.
func checkSignature(signature []byte) error {
	if len(signature) < minSignature || len(signature) > maxSignature {
		return fmt.Errorf("'payload.signature' must be 0x and %d to %d bytes of hexadecimal", minSignature, maxSignature)
	}
	body, wrapped := bytes.CutSuffix(signature, wrappedSuffix)
	if wrapped && !isWrapping(body) {
		return errors.New("'payload.signature' ends as an ERC-6492 signature does and is none")
	}
	return nil
}

// wordSize is the size of everything in the ABI.
const wordSize = 32

// isWrapping reports whether data is the ABI encoding of an address, bytes and
// bytes, as every encoder writes it: the factory, what to call it with, and the
// signature itself, which is not empty and not wrapped again.
func isWrapping(data []byte) bool {
	const head = 3 * wordSize
	if len(data) < head || !zeros(data[:wordSize-20]) {
		return false
	}
	_, second, ok := cutBytes(data[head:])
	if !ok || offset(data[wordSize:]) != head || offset(data[2*wordSize:]) != len(data)-len(second) {
		return false
	}
	signature, rest, ok := cutBytes(second)
	return ok && len(rest) == 0 && len(signature) > 0 && !bytes.HasSuffix(signature, wrappedSuffix)
}

// cutBytes takes a value of the ABI's type bytes off the front: a length, and as
// many bytes with zeros after them to the end of a word.
func cutBytes(data []byte) (value, rest []byte, ok bool) {
	length := offset(data)
	end := wordSize + (length+wordSize-1)/wordSize*wordSize
	if length < 0 || end > len(data) || !zeros(data[wordSize+length:end]) {
		return nil, nil, false
	}
	return data[wordSize : wordSize+length], data[end:], true
}

// offset reads the word at the front as a length or a place in a signature, -1
// where there is none or it is far outside of every signature.
func offset(data []byte) int {
	if len(data) < wordSize || !zeros(data[:wordSize-2]) {
		return -1
	}
	return int(binary.BigEndian.Uint16(data[wordSize-2:]))
}

func zeros(data []byte) bool { return len(bytes.TrimLeft(data, "\x00")) == 0 }
