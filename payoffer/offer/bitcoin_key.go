package offer

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/btcutil/v2/hdkeychain"
)

// extendedKeys are the SLIP-132 prefixes of accepted extended public keys. The wallet of a
// zpub or vpub receives at P2WPKH addresses. Wallets export xpub and tpub for all kinds of
// accounts.
var extendedKeys = map[string]struct {
	network   int
	ambiguous bool
}{"xpub": {0, true}, "zpub": {0, false}, "tpub": {1, true}, "vpub": {1, false}}

// lightning matches an LNURL, a Lightning address, invoice or offer.
var lightning = regexp.MustCompile(`(?i)^(lightning:|lnurl|ln(bc|tb|o)[0-9]|.+@.+\.)`)

// extendedKey matches an extended key (BIP-32) of any prefix, also a mistyped one.
var extendedKey = regexp.MustCompile(`^[A-Za-z](pub|prv)[0-9A-Za-z]{60,}$`)

// chains are those of an account: the published addresses are external, the change addresses
// of its wallet internal (BIP-44).
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
		return nil, fmt.Errorf("the prefix %q of this extended key is not supported; export the account as xpub or zpub (test networks: tpub, vpub)", prefix)
	}
	key, err := hdkeychain.NewKeyFromString(account)
	if err != nil {
		return nil, fmt.Errorf("the extended public key that starts with %q is mistyped: its length or its checksum is wrong; copy it again", prefix)
	}
	if key.IsPrivate() {
		return nil, errPrivateKey
	}
	external, err := key.Derive(0)
	internal, errInternal := key.Derive(1)
	if err := errors.Join(err, errInternal); err != nil {
		return nil, fmt.Errorf("the extended public key that starts with %q has no chains: %w", prefix, err)
	}
	return &Bitcoin{account: account, keys: &chains{key, external, internal}, network: bitcoinNetworks[kind.network]}, nil
}

// accountDepths are the depths (BIP-32) of accounts in wallets: 3 is
// purpose'/coin'/account' (BIP-44, 49, 84, 86), 1 is a segwit wallet of Electrum.
var accountDepths = map[uint8]bool{1: true, 3: true}

// checkDepth refuses keys of something else than an account, because the wallet would not
// show payments to the addresses below them. Accounts are hardened; chains and addresses
// are not.
func (b *Bitcoin) checkDepth() error {
	if b.keys == nil {
		return nil
	}
	depth, hardened := b.keys.account.Depth(), b.keys.account.ChildIndex() >= hdkeychain.HardenedKeyStart
	if accountDepths[depth] && hardened {
		return nil
	}
	given := fmt.Sprintf("depth %d", depth)
	if accountDepths[depth] {
		given += " and is not hardened"
	}
	return fmt.Errorf("this extended public key has %s and is not the key of an account, so its wallet would not show the payments; "+
		"export the account key instead: depth 3 (m/84'/0'/0', in wallets \"account xpub\" or \"zpub\"), or depth 1 for a segwit wallet of Electrum "+
		"(Wallet, Information, Master Public Key)", given)
}

// otherTypes are the address types that are not derived from an extended key, with the
// accounts that use them.
var otherTypes = map[string]string{
	"p2pkh":       "a legacy account (BIP-44)",
	"p2sh-p2wpkh": "a nested segwit account (BIP-49) or of several signers",
	"p2wsh":       "several signers (BIP-48)",
	"p2tr":        "a taproot account (BIP-86)",
}

// otherKeys are the SLIP-132 prefixes of the keys of such accounts.
var otherKeys = map[string]string{
	"ypub": "p2sh-p2wpkh", "upub": "p2sh-p2wpkh", "Ypub": "p2wsh", "Upub": "p2wsh", "Zpub": "p2wsh", "Vpub": "p2wsh",
}

const elsewhere = "whose wallet would not show payments, because an extended key receives only at P2WPKH addresses (bc1q…); " +
	"write the key of a native segwit account (BIP-84), or a single address of this wallet"

// CheckAddressType accepts only p2wpkh, the address type that is derived from extended keys.
func CheckAddressType(name string) error {
	other, known := otherTypes[name]
	switch {
	case name == "p2wpkh":
		return nil
	case known:
		return fmt.Errorf("%s is the address type of %s, %s", name, other, elsewhere)
	}
	return errors.New("this is not an address type; write 'address_type p2wpkh' if the receiving addresses of the wallet begin with bc1q (test networks: tb1q)")
}

// maxCompared is how many addresses are compared with the one that the wallet shows.
const maxCompared = 20

// ConfirmBitcoinAccount requires the address type or the first address of the wallet for an
// extended key whose prefix does not determine the type. It compares a first address, if
// there is one, with the key. Errors repeat neither the account nor the address.
func ConfirmBitcoinAccount(account, addressType, firstAddress string) error {
	b, err := NewBitcoin(account, "", 0)
	switch {
	case err != nil:
		return err
	case !b.Extended() && addressType+firstAddress != "":
		return errors.New("address_type and first_address are only for an extended public key, and this is a single address; remove them")
	case !b.Extended():
		return nil
	case firstAddress != "":
		return b.confirmFirst(firstAddress)
	case addressType == "" && extendedKeys[account[:4]].ambiguous:
		return fmt.Errorf("an %s does not say which address type its wallet uses. Add 'first_address <address>' to 'bitcoin { }', with the first receiving address "+
			"of the wallet, or 'address_type p2wpkh' if that address begins with bc1q (test networks: tb1q)", account[:4])
	}
	return nil
}

// confirmFirst compares the first address in the wallet with that of the key.
func (b *Bitcoin) confirmFirst(text string) error {
	shown, err := parseBitcoin(text)
	if err != nil || shown.Extended() {
		return errors.New("first_address is not a Bitcoin address; copy the first receiving address that the wallet shows, such as bc1q…")
	}
	if shown.network.caip2 != b.network.caip2 {
		return fmt.Errorf("first_address is an address of %s, but the key is one of %s; copy both from the same wallet", shown.network.title, b.network.title)
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
		return fmt.Errorf("first_address has another type: %w", err)
	}
	for i := range uint32(maxCompared) {
		ours, err := b.Address(i)
		switch {
		case err != nil:
			return err
		case ours != shown.account:
		case i > 0:
			return fmt.Errorf("first_address is address %d of this key; write address 0, the first receiving address, even if it is used", i)
		default:
			return nil
		}
	}
	return errors.New("first_address is not a receiving address of this key; copy both again from the same account of the wallet. " +
		"If they are right, its wallet derives other addresses: write a single address instead of the key")
}

// FirstAddresses are the first two addresses of an extended key, to compare with the wallet.
func (b *Bitcoin) FirstAddresses() []string {
	var first []string
	for i := range uint32(2) {
		if address, err := b.Address(i); err == nil { // one in 2^127 is none
			first = append(first, address)
		}
	}
	return first
}

// ChangeScript is the output script at an index of the internal chain.
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
	return address.NewAddressWitnessPubKeyHash(address.Hash160(public.SerializeCompressed()), b.network.params)
}
