package offer

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"
)

var (
	evmAddress = regexp.MustCompile(`^0[xX][0-9a-fA-F]{40}$`)
	evmKey     = regexp.MustCompile(`^(0[xX])?[0-9a-fA-F]{64}$`)
)

// ParseEVMAddress returns an account address in EIP-55 form. A mixed-case address must have
// the right checksum.
func ParseEVMAddress(s string) (string, error) {
	if evmKey.MatchString(s) {
		return "", errors.New("this is a private key or a hash, not an address; write the address of the wallet (0x and 40 digits). If it was a private key, move its money to a new wallet")
	}
	if err := cmp.Or(CheckNoSecret(s), CheckNoSeedPhrase(s)); err != nil {
		return "", err
	}
	if !evmAddress.MatchString(s) {
		return "", fmt.Errorf("this has %d characters and is not an EVM address, which has 42: 0x and 40 hexadecimal digits; copy it again from your wallet", len(s))
	}
	address := common.HexToAddress(s)
	digits, checksummed := s[2:], address.Hex()
	mixed := digits != strings.ToLower(digits) && digits != strings.ToUpper(digits)
	switch {
	case mixed && digits != checksummed[2:]:
		return "", fmt.Errorf("the checksum (EIP-55) of %q is wrong, so a letter or digit was mistyped; copy the address again from your wallet", s)
	case address == common.Address{}:
		return "", errors.New("the zero address belongs to no wallet; copy the receiving address of your own wallet")
	}
	return checksummed, nil
}

func init() { reserved = append(reserved, "usdc", "eip681", "x402") }

// USDC is the rail that takes USDC on one EVM chain, by an EIP-681 URI and by x402.
type USDC struct {
	Network Network
	// PayTo is the receiving address in EIP-55 form.
	PayTo string
	// Explorer is the prefix of transaction pages in a block explorer, or empty.
	Explorer string
	name     string
	amount   USD
}

// NewUSDC makes a rail. It refuses the address of a USDC contract on any network, because
// money sent there is lost.
func NewUSDC(name string, network Network, payTo string, amount USD) (*USDC, error) {
	address, err := ParseEVMAddress(payTo)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(networks, func(n Network) bool { return n.USDC == address }); i >= 0 {
		return nil, fmt.Errorf("%s is the USDC contract on %s, and money sent there is lost; copy the receiving address of your own wallet", address, networks[i].Title)
	}
	return &USDC{Network: network, PayTo: address, Explorer: network.Explorer, name: name, amount: amount}, nil
}

// Name is the rail's path segment: "usdc", or "usdc-<chain id>".
func (u *USDC) Name() string { return u.name }

// Test reports whether the rail is on a test network.
func (u *USDC) Test() bool { return u.Network.Test }

// AmountAtomic is the price in the token's atomic units (10^-6 USDC).
func (u *USDC) AmountAtomic() string { return strconv.FormatInt(u.Atomic(), 10) }

// Atomic is the price in atomic units.
func (u *USDC) Atomic() int64 { return int64(u.amount) * atomicPerCent }

// Account is "eip155:<chain>/erc20:<token>/<payTo>" in lower case (CAIP-19 and the address).
func (u *USDC) Account() string { return USDCAccount(u.Network, u.PayTo) }

// Source is the chain.
func (*USDC) Source() Source { return SourceChain }

// ParseUSDCAccount returns the network and the receiving address, in EIP-55 form, of an account.
func ParseUSDCAccount(account string) (Network, string, error) {
	for _, network := range networks {
		if address, found := strings.CutPrefix(account, USDCAccount(network, "")); found {
			payTo, err := ParseEVMAddress(address)
			return network, payTo, err
		}
	}
	return Network{}, "", fmt.Errorf("the ledger contains %q, which is not the account of a USDC rail; restore a backup", account)
}

// USDCAccount is the account of an address of USDC on a network: "eip155:<chain>/erc20:<token>/<payTo>" in lower case.
func USDCAccount(network Network, payTo string) string {
	return strings.ToLower(network.CAIP2() + "/erc20:" + network.USDC + "/" + payTo)
}

// URI is the EIP-681 transfer. The amount is a plain integer, because wallets disagree on
// exponents.
func (u *USDC) URI() string {
	return fmt.Sprintf("ethereum:%s@%d/transfer?address=%s&uint256=%s", u.Network.USDC, u.Network.ChainID, u.PayTo, u.AmountAtomic())
}

// Face names the token and its network. Pages mark test rails themselves.
func (u *USDC) Face() Face {
	name := Phrase{Key: "rail.usdc.name", With: With{"network": strings.TrimSuffix(u.Network.Title, testTitle)}}
	return Face{
		Icon: "M12 3a9 9 0 0 1 0 18a9 9 0 0 1 0-18zM12 7v10M15 9c-1-1.5-6-1.5-6 1s6 1.5 6 4-5 2.5-6 1",
		Name: name, Way: name, Fee: Phrase{Key: "rail.usdc.fee"},
		Hint: Phrase{Key: "rail.usdc.time"}, Act: Phrase{Key: "rail.usdc.act"}, Note: Phrase{Key: "rail.wallet"},
		Only: Phrase{Key: "rail.usdc.only", With: With{"network": u.Network.Label()}}, Asks: true,
	}
}

// TransactionURL is the transaction at Explorer.
func (u *USDC) TransactionURL(transaction string) string { return explorerURL(u.Explorer, transaction) }

// explorerURL is the page of a transaction in an explorer.
func explorerURL(explorer, transaction string) string {
	if explorer == "" || transaction == "" {
		return ""
	}
	return explorer + url.PathEscape(transaction)
}

// Methods are the wallet transfer, and the x402 payment if it is offered.
func (u *USDC) Methods(o *Offer, live Live) []Method {
	wallet := Method{
		Rail: u.name, Scheme: "eip681", Title: u.amount.String() + " USDC on " + u.Network.Title, URI: u.URI(),
		AmountUSD: u.amount, Network: u.Network.CAIP2(), Asset: u.Network.USDC, Symbol: "USDC",
		AmountAtomic: u.AmountAtomic(), PayTo: u.PayTo, Available: true, Chain: &u.Network,
		Facts: []Fact{
			{Label: "send", Value: coins(u.amount.String(), "USDC"), Copy: u.amount.String()},
			{Label: "network", Value: u.Network.Label()},
			{Label: "to", Value: Literal(u.PayTo), Copy: u.PayTo},
			{Label: "chain", Value: Literal(strconv.FormatInt(u.Network.ChainID, 10)), Detail: true},
			{Label: "token", Value: Literal(u.Network.USDC), Copy: u.Network.USDC, Detail: true},
		},
	}
	if !live.Takes(wallet.Network) {
		wallet.Chain = nil
		return []Method{wallet}
	}
	program := wallet
	program.Scheme, program.URI, program.URL = "x402", "", o.URL(PathSponsor)
	program.Title = wallet.Title + " by the x402 protocol"
	program.Facts = nil
	return []Method{wallet, program}
}
