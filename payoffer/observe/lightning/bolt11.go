package lightning

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/btcsuite/btcd/address/v2/bech32"
	"github.com/ethereum/go-ethereum/crypto"
)

// request is a payment request (BOLT 11), as far as it is checked before a payer sees it.
type request struct {
	text, verify  string // verify is where the wallet says whether it was paid, or empty
	foreign       bool   // verify is at another domain than the wallet's
	network       string // "bc" is the main network
	millisatoshis int64  // 0 without an amount
	hash          string // of the payment, in hex
	at, expireAt  time.Time
}

// defaultExpiry is that of a payment request without the field x.
const defaultExpiry = time.Hour

// signatureLength and timeLength are numbers of 5 bits.
const signatureLength, timeLength = 104, 7

var (
	prefixForm = regexp.MustCompile(`^ln(bc|tb|tbs|bcrt)(?:([1-9][0-9]{0,14})([munp]?))?$`)
	// multipliers are how many tenths of a millisatoshi an amount with this letter has.
	multipliers = map[string]int64{"": 1e12, "m": 1e9, "u": 1e6, "n": 1e3, "p": 1}
	errRequest  = errors.New("the payment request is not valid (BOLT 11)")
)

// parseRequest decodes a payment request and checks its checksum and its signature.
func parseRequest(text string) (r request, err error) {
	prefix, data, version, err := bech32.DecodeNoLimitWithVersion(text)
	form := prefixForm.FindStringSubmatch(prefix)
	if err != nil || version != bech32.Version0 || form == nil || len(data) < timeLength+signatureLength {
		return r, errRequest
	}
	r.text = strings.ToLower(text)
	if r.network = form[1]; form[2] != "" {
		tenths, _ := new(big.Int).SetString(form[2], 10) // digits
		tenths.Mul(tenths, big.NewInt(multipliers[form[3]]))
		if !tenths.IsInt64() || tenths.Int64()%10 != 0 {
			return r, errRequest
		}
		r.millisatoshis = tenths.Int64() / 10
	}
	fields, signature := data[:len(data)-signatureLength], data[len(data)-signatureLength:]
	r.at = time.Unix(number(fields[:timeLength]), 0)
	expiry := defaultExpiry
	for rest := fields[timeLength:]; len(rest) > 0; {
		if len(rest) < 3 {
			return r, errRequest
		}
		kind, length := rest[0], int(number(rest[1:3]))
		if rest = rest[3:]; len(rest) < length {
			return r, errRequest
		}
		value := rest[:length]
		rest = rest[length:]
		switch {
		case kind == 1 && length == 52 && r.hash == "": // p: the payment hash
			hash, _ := bech32.ConvertBits(value, 5, 8, false)
			r.hash = hex.EncodeToString(hash)
		case kind == 6 && length <= 7: // x: the expiry in seconds
			expiry = min(time.Duration(number(value)), 1<<32) * time.Second
		}
	}
	r.expireAt = r.at.Add(expiry)
	message, _ := bech32.ConvertBits(fields, 5, 8, true)     // of any digits
	compact, _ := bech32.ConvertBits(signature, 5, 8, false) // 104 digits are 65 bytes
	digest := sha256.Sum256(slices.Concat([]byte(prefix), message))
	if _, err := crypto.SigToPub(digest[:], compact); err != nil || compact[64] > 3 || r.hash == "" {
		return r, errRequest
	}
	return r, nil
}

// number reads a big-endian number of at most 7 times 5 bits.
func number(digits []byte) (n int64) {
	for _, d := range digits {
		n = n<<5 | int64(d)
	}
	return n
}
