package buyer

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/ethereum/go-ethereum/crypto"
)

// Key is the private key of the payer's account. It prints as the address.
type Key struct {
	private *ecdsa.PrivateKey
}

// ParseKey reads 64 hexadecimal digits, with or without 0x. The error does not repeat
// them.
func ParseKey(text string) (Key, error) {
	private, err := crypto.HexToECDSA(strings.TrimPrefix(strings.TrimSpace(text), "0x"))
	if err != nil {
		return Key{}, errors.New("the key file or PAY_OFFER_KEY has no private key; write the 64 hexadecimal digits that the wallet exports, with or without 0x")
	}
	return Key{private}, nil
}

// NewKey makes a new random key.
func NewKey() Key {
	private, _ := crypto.GenerateKey() // never fails
	return Key{private}
}

// ReadKey reads a key from a file that only its owner can read. The error does not
// repeat the name, because it may be the key itself.
func ReadKey(name string) (Key, error) {
	file, err := os.Open(name)
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		err = failed.Err
	}
	if err != nil {
		return Key{}, fmt.Errorf("the key file cannot be opened: %w; check its path and its owner", err)
	}
	defer file.Close()
	info, err := file.Stat()
	text, failed := io.ReadAll(io.LimitReader(file, 1<<10))
	if err != nil || failed != nil {
		return Key{}, errors.New("the key file cannot be read; it must be a file with 64 hexadecimal digits")
	}
	if mode := info.Mode(); mode.IsRegular() && mode.Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return Key{}, fmt.Errorf("other users can read the key file (mode %04o); protect it, such as by 'chmod 600 payer.key', and use a new key if others had access", mode.Perm())
	}
	return ParseKey(string(text))
}

// Address is the account's address in EIP-55 form.
func (k Key) Address() string { return crypto.PubkeyToAddress(k.private.PublicKey).Hex() }

// String and GoString keep the private key out of all output.
func (k Key) String() string   { return k.Address() }
func (k Key) GoString() string { return k.Address() }
