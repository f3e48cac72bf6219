package offer

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/chaincfg/v2"
)

const (
	// RailBitcoin is the name of the Bitcoin rail.
	RailBitcoin = "btc"

	// quoteLifetime is how long after its rate was observed an amount is valid. The observer
	// accepts it for an hour after the last publication, which the ledger stores only
	// every ten minutes.
	quoteLifetime = 45 * time.Minute
)

// bitcoinNetwork is a Bitcoin network with its CAIP-2 id (bip122:<first 32 digits of the
// genesis hash>).
type bitcoinNetwork struct {
	params       *chaincfg.Params
	caip2, title string
	test         bool
	// explorer is the prefix of transaction pages in a block explorer, or empty.
	explorer string
}

var bitcoinNetworks = []bitcoinNetwork{
	{&chaincfg.MainNetParams, "bip122:000000000019d6689c085ae165831e93", "Bitcoin", false, "https://mempool.space/tx/"},
	{&chaincfg.TestNet3Params, "bip122:000000000933ea01ad0ee984209779ba", "Bitcoin test network", true, "https://mempool.space/testnet/tx/"},
	{&chaincfg.RegressionNetParams, "bip122:0f9188f13cb7b2c71f2a335e3a4fc328", "Bitcoin regression-test network", true, ""},
}

// errPrivateKey refuses a key that can spend.
var errPrivateKey = fmt.Errorf("%w; write an address or the extended public key (xpub, zpub) here", errWalletKey)

// walletImport matches a private key in the wallet import format, or encrypted (BIP-38).
var walletImport = regexp.MustCompile(`^\s*(?:[59cKL]|6P)[1-9A-HJ-NP-Za-km-z]{50,56}\s*$`)

func init() { reserved = append(reserved, RailBitcoin, "bip21") }

// Bitcoin is the rail that takes bitcoin by a BIP-21 URI.
type Bitcoin struct {
	// Explorer is the prefix of transaction pages in a block explorer, or empty.
	Explorer string
	account  string
	single   address.Address // nil for an extended key
	keys     *chains         // nil for a single address
	network  bitcoinNetwork
	label    string
	amount   USD
}

// NewBitcoin makes the rail for an address, or for the extended public key of an account
// (BIP-32), whose external chain has the published P2WPKH addresses. label names the payee
// in the payer's wallet.
func NewBitcoin(account, label string, amount USD) (*Bitcoin, error) {
	b, err := parseBitcoin(account)
	if err != nil {
		return nil, err
	}
	if err := b.checkDepth(); err != nil {
		return nil, err
	}
	b.label, b.amount, b.Explorer = label, amount, b.network.explorer
	return b, nil
}

// ParseBitcoinAccount reads an account, also of a key that NewBitcoin now refuses, because
// payers may still use a published address.
func ParseBitcoinAccount(account string, amount USD) (*Bitcoin, error) {
	caip2, given, _ := strings.Cut(account, "/")
	b, err := parseBitcoin(given)
	if err != nil || b.network.caip2 != caip2 {
		return nil, errors.New("the ledger contains an account that is not of a Bitcoin rail; restore a backup")
	}
	b.amount, b.Explorer = amount, b.network.explorer
	return b, nil
}

func parseBitcoin(account string) (*Bitcoin, error) {
	switch {
	case CheckNoSecret(account) != nil || CheckNoSeedPhrase(account) != nil || walletImport.MatchString(account):
		return nil, errPrivateKey
	case extendedKey.MatchString(account):
		return parseExtendedKey(account)
	case strings.Contains(account, "("):
		return nil, errors.New("this is an output descriptor; write an address, or the extended public key in it alone (xpub, zpub)")
	case lightning.MatchString(account):
		return nil, errors.New("this is of Lightning, which has an option of its own, such as 'lightning alice@wallet.example'; write a Bitcoin address (bc1…, 1… or 3…) or an extended public key")
	case strings.HasPrefix(strings.ToLower(account), "bitcoin:"):
		return nil, errors.New("write the address alone, without 'bitcoin:' and what follows '?'")
	}
	for _, network := range bitcoinNetworks {
		// An address of another network decodes without an error.
		decoded, err := address.DecodeAddress(account, network.params)
		if err != nil || !decoded.IsForNet(network.params) {
			continue
		}
		switch decoded.(type) { // a raw public key also decodes but is not an address
		case *address.AddressPubKeyHash, *address.AddressScriptHash, *address.AddressWitnessPubKeyHash,
			*address.AddressWitnessScriptHash, *address.AddressTaproot:
			return &Bitcoin{account: decoded.EncodeAddress(), single: decoded, network: network}, nil
		}
	}
	if strings.HasPrefix(account, "0x") {
		return nil, errors.New("this is an address of Ethereum and chains like it; write it at the option usdc, and here one that begins with bc1, 1 or 3")
	}
	return nil, errors.New("this is not a Bitcoin address: its checksum or its network is wrong; copy it again from your wallet (bc1…, 1… or 3…)")
}

// Name is "btc".
func (b *Bitcoin) Name() string { return RailBitcoin }

// Test reports whether the rail takes test money.
func (b *Bitcoin) Test() bool { return b.network.test }

// Account is "<CAIP-2 id>/<address or extended public key>".
func (b *Bitcoin) Account() string { return b.network.caip2 + "/" + b.account }

// Source is the chain.
func (*Bitcoin) Source() Source { return SourceChain }

// CAIP2 is the network's identifier (CAIP-2, bip122): "bip122:" and the first
// 32 hexadecimal digits of the hash of its first block.
func (b *Bitcoin) CAIP2() string { return b.network.caip2 }

// Extended reports whether the rail has an extended public key, with an address for each
// index.
func (b *Bitcoin) Extended() bool { return b.keys != nil }

// Address is the address at an index of the external chain. A rail without an extended key
// has one address.
func (b *Bitcoin) Address(index uint32) (string, error) {
	a, err := b.address(index)
	if err != nil {
		return "", err
	}
	return a.EncodeAddress(), nil
}

// ScriptPubKey is the output script of Address(index).
func (b *Bitcoin) ScriptPubKey(index uint32) ([]byte, error) {
	a, err := b.address(index)
	if err != nil {
		return nil, err
	}
	return scriptPubKey(a), nil
}

func scriptPubKey(a address.Address) []byte {
	program := a.ScriptAddress()
	push := append([]byte{byte(len(program))}, program...)
	switch a.(type) {
	case *address.AddressPubKeyHash: // OP_DUP OP_HASH160 <hash> OP_EQUALVERIFY OP_CHECKSIG
		return slices.Concat([]byte{0x76, 0xa9}, push, []byte{0x88, 0xac})
	case *address.AddressScriptHash: // BIP-16: OP_HASH160 <hash> OP_EQUAL
		return slices.Concat([]byte{0xa9}, push, []byte{0x87})
	case *address.AddressTaproot: // BIP-341: OP_1 <key>
		return append([]byte{0x51}, push...)
	default: // BIP-141: OP_0 and a hash of a key or of a script, told apart by its length
		return append([]byte{0x00}, push...)
	}
}

func (b *Bitcoin) address(index uint32) (address.Address, error) {
	if b.keys == nil {
		return b.single, nil
	}
	return b.derive(b.keys.external, index)
}

// Face says the fee and the duration.
func (b *Bitcoin) Face() Face {
	name := Phrase{Key: "rail.btc.name"}
	return Face{
		Icon: "M12 3a9 9 0 0 1 0 18a9 9 0 0 1 0-18zM10 7.5v9M10 8h3a2 2 0 0 1 0 4h-3 3.5a2 2 0 0 1 0 4H10",
		Name: name, Way: name, Fee: Phrase{Key: "rail.btc.fee"}, Hint: Phrase{Key: "rail.btc.time"}, Act: Phrase{Key: "rail.btc.act"},
		Note: Phrase{Key: "rail.wallet"}, Asks: true,
	}
}

// TransactionURL is the transaction at Explorer.
func (b *Bitcoin) TransactionURL(transaction string) string {
	return explorerURL(b.Explorer, transaction)
}

// Methods is the BIP-21 payment. It is not available without a rate or with an amount that
// cannot be sent.
func (b *Bitcoin) Methods(_ *Offer, live Live) []Method {
	m := Method{
		Rail: RailBitcoin, Scheme: "bip21", Title: b.amount.String() + " USD in bitcoin",
		AmountUSD: b.amount, Network: b.network.caip2, Asset: "BTC", Symbol: "BTC",
	}
	payTo := b.account
	if b.Extended() {
		payTo = live.Address
	}
	if m.Reason, m.Why = b.unavailable(payTo, live); m.Reason != "" {
		return []Method{m}
	}
	amount, until := FormatDecimal(live.Satoshis, 8), live.RateAt.Add(quoteLifetime).UTC()
	m.Available, m.PayTo, m.ValidUntil = true, payTo, until.Format(time.RFC3339)
	m.AmountAtomic = strconv.FormatInt(live.Satoshis, 10)
	m.URI = "bitcoin:" + payTo + "?amount=" + amount + "&label=" + percentEncode(b.label)
	m.Holds = Phrase{Key: "rail.btc.holds", With: With{"time": until.Format("15:04 UTC")}}
	m.Facts = []Fact{
		{Label: "send", Value: coins(amount, "BTC"), Copy: amount},
		{Label: "to", Value: Literal(payTo), Copy: payTo},
	}
	return []Method{m}
}

// unavailable is why an address cannot be paid now, for the API and for pages; empty if it can.
func (b *Bitcoin) unavailable(payTo string, live Live) (reason string, why Phrase) {
	if payTo == "" {
		return "the current address is not known yet; try again in a minute", Phrase{Key: "rail.btc.noAddress"}
	}
	least := b.dustLimit(payTo)
	switch {
	case live.Satoshis <= 0 && live.RateAt.IsZero():
		return "there is no current exchange rate; try again in a minute", Phrase{Key: "rail.btc.noRate"}
	case live.Satoshis <= 0:
		return "at the current BTC/USD rate the amount is more than all bitcoin that can exist", Phrase{Key: "rail.btc.tooMuch"}
	case live.Satoshis < least:
		return fmt.Sprintf("at the current BTC/USD rate the amount is %d satoshis, and wallets send no less than %d to such an address", live.Satoshis, least),
			Phrase{Key: "rail.btc.tooLittle", With: With{"satoshis": live.Satoshis, "least": least}}
	}
	return "", Phrase{}
}

// dustLimit is the least number of satoshis that nodes relay to an address (Bitcoin Core,
// GetDustThreshold at the default dust relay fee of 3 satoshis a virtual byte).
func (b *Bitcoin) dustLimit(payTo string) int64 {
	decoded, _ := address.DecodeAddress(payTo, b.network.params) // it is one of ours
	switch decoded.(type) {
	case *address.AddressPubKeyHash:
		return 546
	case *address.AddressScriptHash:
		return 540
	case *address.AddressWitnessPubKeyHash:
		return 294
	default: // *address.AddressWitnessScriptHash, *address.AddressTaproot
		return 330
	}
}
