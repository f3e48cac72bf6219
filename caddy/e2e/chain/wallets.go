package chain

import (
	"bytes"
	"crypto/ecdsa"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/contracts"
)

// Addresses of contract wallets of the Owner, and of what makes others.
var (
	oneOwner = common.HexToAddress("0x0000000000000000000000000000000000005AFE")
	passkey  = common.HexToAddress("0x0000000000000000000000000000000000009A55")
	delegate = common.HexToAddress("0x0000000000000000000000000000000000007702")
	// Factory deploys wallets.
	Factory = common.HexToAddress("0x00000000000000000000000000000000000FAc70")
)

// Account is an account with USDC that signs authorizations.
type Account struct {
	Address common.Address
	// Sign signs an authorization of the account.
	Sign func(t testing.TB, a Authorization) hexutil.Bytes
}

// Account returns the account of a key.
func (c *Chain) Account(key *ecdsa.PrivateKey) Account {
	return Account{Address(key), func(t testing.TB, a Authorization) hexutil.Bytes { return a.Sign(t, key) }}
}

// WalletKinds are the kinds of contract wallets.
var WalletKinds = []string{"one owner, 65 bytes", "passkey", "EIP-7702", "undeployed"}

// OpenWallet returns the Owner's wallet of a kind.
func (c *Chain) OpenWallet(t testing.TB, kind string) Account {
	t.Helper()
	switch kind {
	case "one owner, 65 bytes":
		return Account{oneOwner, c.signAsOwner}
	case "passkey":
		return Account{passkey, func(t testing.TB, a Authorization) hexutil.Bytes {
			return Pack(t, "(uint256,bytes)", common.Big0, []byte(c.signAsOwner(t, a)))[4:]
		}}
	case "EIP-7702":
		return Account{Address(c.Owner), c.signAsOwner}
	}
	require.Equal(t, "undeployed", kind)
	answer, err := c.client.CallContract(t.Context(), ethereum.CallMsg{To: &Factory, Data: Pack(t, "addressOf(address)", Address(c.Owner))}, nil)
	require.NoError(t, err)
	wallet := common.BytesToAddress(answer)
	c.Fund(t, wallet)
	return Account{wallet, func(t testing.TB, a Authorization) hexutil.Bytes {
		deploy := Pack(t, "deploy(address)", Address(c.Owner))
		return append(Pack(t, "(address,bytes,bytes)", Factory, deploy, []byte(c.signAsOwner(t, a)))[4:], wrapped...)
	}}
}

// signAsOwner signs what a wallet asks its owner to sign, which names the wallet.
func (c *Chain) signAsOwner(t testing.TB, a Authorization) hexutil.Bytes {
	t.Helper()
	return sign(t, c.Owner, crypto.Keccak256(common.LeftPadBytes(a.From.Bytes(), 32), a.digest(t)))
}

// wrapped ends the signature of a wallet that is not deployed yet (ERC-6492).
var wrapped = bytes.Repeat([]byte{0x64, 0x92}, 16)

// Deploy deploys the wallet that a signature is wrapped for, as a facilitator does, and returns the signature inside.
// Other signatures stay as they are.
func (c *Chain) Deploy(t testing.TB, signature []byte) []byte {
	body, is := bytes.CutSuffix(signature, wrapped)
	if !is {
		return signature
	}
	var arguments abi.Arguments
	for _, name := range []string{"address", "bytes", "bytes"} {
		kind, err := abi.NewType(name, "", nil)
		require.NoError(t, err)
		arguments = append(arguments, abi.Argument{Type: kind})
	}
	values, err := arguments.Unpack(body)
	require.NoError(t, err)
	_, err = c.Send(values[0].(common.Address), values[1].([]byte))
	require.NoError(t, err)
	c.Mine(t, 1)
	return values[2].([]byte)
}

// walletsAlloc is what wallets need in the genesis block.
func (c *Chain) walletsAlloc() types.GenesisAlloc {
	owned := map[common.Hash]common.Hash{{}: common.BytesToHash(Address(c.Owner).Bytes())}
	return types.GenesisAlloc{
		oneOwner:         {Code: contracts.Wallet(), Storage: owned},
		passkey:          {Code: contracts.Wallet(), Storage: owned},
		delegate:         {Code: contracts.Wallet()},
		Address(c.Owner): {Code: types.AddressToDelegation(delegate)},
		Factory:          {Code: contracts.WalletFactory()},
	}
}
