package offer

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/btcutil/v2/hdkeychain"
)

// extendedKeys are the SLIP-132 prefixes of the extended public keys that are
// taken. A zpub or vpub says that its wallet receives at P2WPKH addresses; an
// xpub or tpub does not tell, for wallets export it of accounts of every kind.
var extendedKeys = map[string]struct {
	network   int
	ambiguous bool
}{"xpub": {0, true}, "zpub": {0, false}, "tpub": {1, true}, "vpub": {1, false}}

// extendedKey is the shape of an extended key (BIP-32) of any prefix, cut short
// or mistyped ones included.
var extendedKey = regexp.MustCompile(`^[A-Za-z](pub|prv)[0-9A-Za-z]{60,}$`)

// chains are those of an account: the external one, whose addresses are
// published, and the internal one, at which its wallet takes change (BIP-44).
type chains struct {
	account, external, internal *hdkeychain.ExtendedKey
}

func parseExtendedKey(account string) (*Bitcoin, error) {
	prefix := account[:4]
	if strings.HasSuffix(prefix, "prv") {
		return nil, errPrivateKey
	}
	kind, known := extendedKeys[prefix]
	if !known {
		if other := otherKeys[prefix]; other != "" {
			return nil, fmt.Errorf("this is the key (%s) of %s, %s", prefix, otherTypes[other], elsewhere)
		}
		return nil, fmt.Errorf("an extended key that starts with %q is not supported; export the account as xpub or zpub (test networks: tpub, vpub)", prefix)
	}
	key, err := hdkeychain.NewKeyFromString(account)
	if err != nil {
		return nil, fmt.Errorf("the extended public key that starts with %q is mistyped: its length or its checksum is wrong; copy it again", prefix)
	}
	if key.IsPrivate() {
		return nil, errPrivateKey
	}
	external, err := key.Derive(0)
	if err != nil {
		return nil, fmt.Errorf("the extended public key that starts with %q has no external chain: %w", prefix, err)
	}
	internal, err := key.Derive(1)
	if err != nil {
		return nil, fmt.Errorf("the extended public key that starts with %q has no internal chain: %w", prefix, err)
	}
	return &Bitcoin{account: account, keys: &chains{key, external, internal}, network: bitcoinNetworks[kind.network]}, nil
}

// accountDepths are at which depths (BIP-32) wallets have accounts: 3 is
// purpose'/coin'/account' (BIP-44, 49, 84, 86), and 1 is the account' of BIP-32's
// default layout, of which Electrum's segwit wallets have the first. The prefix
// says nothing of it: who imports an Electrum wallet may export it as an xpub.
var accountDepths = map[uint8]bool{1: true, 3: true}

// otherDepths are what is exported by mistake.
var otherDepths = map[uint8]string{
	0: "the master key of a whole wallet",
	2: "the key of a coin, or of one chain of an account",
	4: "the key of one chain of an account, or of one signer of several",
	5: "the key of a single address",
}

// checkDepth refuses extended keys that are no account's. A wallet would look for
// the money at other addresses than those below such a key. Accounts are hardened,
// chains and addresses are not.
func (b *Bitcoin) checkDepth() error {
	if b.keys == nil {
		return nil
	}
	depth, hardened := b.keys.account.Depth(), b.keys.account.ChildIndex() >= hdkeychain.HardenedKeyStart
	what, given := otherDepths[depth], fmt.Sprintf("depth %d", depth)
	switch {
	case accountDepths[depth] && hardened:
		return nil
	case accountDepths[depth]:
		what, given = "the key of a chain or of an address", given+" and is not hardened"
	case what == "":
		what = "deeper than any wallet's account"
	}
	return fmt.Errorf("this extended public key has %s: it is %s, and its wallet would not show what is paid here; "+
		"export that of one account, which has depth 3 (m/84'/0'/0'; in wallets \"account xpub\" or \"zpub\") or, of a segwit wallet of Electrum, depth 1 "+
		"(Wallet, Information, Master Public Key)", given, what)
}

// otherTypes are the kinds of address that are not published of an extended key,
// with the accounts that have them.
var otherTypes = map[string]string{
	"p2pkh":       "a legacy account (BIP-44)",
	"p2sh-p2wpkh": "a nested segwit account (BIP-49) or of several signers",
	"p2wsh":       "several signers (BIP-48)",
	"p2tr":        "a taproot account (BIP-86)",
}

// otherKeys are the SLIP-132 prefixes of the keys of such accounts. The same key
// under another prefix would be taken, and its money never be seen.
var otherKeys = map[string]string{
	"ypub": "p2sh-p2wpkh", "upub": "p2sh-p2wpkh", "Ypub": "p2wsh", "Upub": "p2wsh", "Zpub": "p2wsh", "Vpub": "p2wsh",
}

// elsewhere says what becomes of money that is paid below such a key.
const elsewhere = "whose wallet does not show what is paid to the P2WPKH addresses (bc1q…) that are published of an extended key; " +
	"make a native segwit account (BIP-84) in the wallet and write its key, or write a single address of this one in place of the key"

// CheckAddressType checks the name of a kind of address: p2wpkh alone is published
// of an extended key.
func CheckAddressType(name string) error {
	other, known := otherTypes[name]
	switch {
	case name == "p2wpkh":
		return nil
	case known:
		return fmt.Errorf("%s is the kind of %s, %s", name, other, elsewhere)
	}
	return errors.New("this is no kind of address; write p2wpkh if the receiving addresses of the wallet begin with bc1q (test networks: tb1q)")
}

// firstLooked is how many addresses are compared with one that is not the first.
const firstLooked = 20

// ConfirmBitcoinAccount requires that an extended key which does not tell its kind
// of address is confirmed: by the name of the kind, or by the first address that
// its wallet shows, which is checked wherever it is given. Each may be empty.
// Errors repeat neither the account nor the address.
func ConfirmBitcoinAccount(account, addressType, firstAddress string) error {
	b, err := NewBitcoin(account, "", 0)
	switch {
	case err != nil:
		return err
	case !b.Extended() && addressType+firstAddress != "":
		return errors.New("address_type and first_address are for an extended public key; leave them out beside an address")
	case !b.Extended():
		return nil
	case firstAddress != "":
		return b.confirmFirst(firstAddress)
	case addressType == "" && extendedKeys[account[:4]].ambiguous:
		return fmt.Errorf("an extended public key that starts with %q does not tell whether its wallet receives at P2WPKH addresses (bc1q…), "+
			"and one that does not never shows what is paid here; add, in braces after the key, the line 'first_address <address>' with the first receiving address "+
			"that the wallet shows, or 'address_type p2wpkh' if you know that its account is native segwit (BIP-84)", account[:4])
	}
	return nil
}

// confirmFirst compares the first address that a wallet shows with ours.
func (b *Bitcoin) confirmFirst(text string) error {
	shown, err := parseBitcoin(text)
	if err != nil || shown.Extended() {
		return errors.New("first_address is no Bitcoin address: copy the first receiving address that the wallet shows")
	}
	if shown.network.caip2 != b.network.caip2 {
		return fmt.Errorf("first_address is an address of %s, but the key is one of %s", shown.network.title, b.network.title)
	}
	shownType := "p2wpkh"
	switch shown.single.(type) {
	case *address.AddressPubKeyHash:
		shownType = "p2pkh"
	case *address.AddressScriptHash:
		shownType = "p2sh-p2wpkh"
	case *address.AddressWitnessScriptHash:
		shownType = "p2wsh"
	case *address.AddressTaproot:
		shownType = "p2tr"
	}
	if err := CheckAddressType(shownType); err != nil {
		return fmt.Errorf("first_address is of another kind: %w", err)
	}
	for i := range uint32(firstLooked) {
		ours, err := b.Address(i)
		switch {
		case err != nil:
			return err
		case ours != shown.account:
		case i > 0:
			return fmt.Errorf("first_address is address %d of this key; write its first receiving address, which has the number 0, also if it was used before", i)
		default:
			return nil
		}
	}
	return errors.New("first_address is no receiving address of this key: copy both again from the same account of the wallet; " +
		"if they are, its wallet derives addresses in another way: write a single address in place of the key")
}

// FirstAddresses are the first two of an extended key, for its owner to compare
// with those that the wallet shows.
func (b *Bitcoin) FirstAddresses() []string {
	var first []string
	for i := range uint32(2) {
		if address, err := b.Address(i); err == nil { // one in 2^127 is none
			first = append(first, address)
		}
	}
	return first
}

// ChangeScript is the output script at an index of the internal chain, at which
// the wallet of an extended key takes change.
func (b *Bitcoin) ChangeScript(index uint32) ([]byte, error) {
	a, err := b.derive(b.keys.internal, index)
	if err != nil {
		return nil, err
	}
	return scriptPubKey(a), nil
}

// derive is the P2WPKH address at an index of a chain.
func (b *Bitcoin) derive(chain *hdkeychain.ExtendedKey, index uint32) (address.Address, error) {
	child, err := chain.Derive(index)
	if err != nil {
		return nil, fmt.Errorf("derive address %d: %w", index, err)
	}
	public, err := child.ECPubKey()
	if err != nil {
		return nil, fmt.Errorf("derive address %d: %w", index, err)
	}
	a, err := address.NewAddressWitnessPubKeyHash(address.Hash160(public.SerializeCompressed()), b.network.params)
	if err != nil {
		return nil, fmt.Errorf("derive address %d: %w", index, err)
	}
	return a, nil
}
