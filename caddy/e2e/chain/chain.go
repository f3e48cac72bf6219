// Package chain is an EVM chain for tests: go-ethereum's node with a simulated beacon, in this process, with JSON-RPC
// over HTTP on a loopback port. It has the chain id of Base Sepolia and, at their official addresses, a USDC of our own
// and Multicall3, so that official x402 clients and facilitators take it for that network.
package chain

import (
	"crypto/ecdsa"
	"maps"
	"math/big"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/eth"
	"github.com/ethereum/go-ethereum/eth/catalyst"
	"github.com/ethereum/go-ethereum/eth/ethconfig"
	"github.com/ethereum/go-ethereum/eth/filters"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/node"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/contracts"
)

// ID is the chain id of Start, that of Base Sepolia.
const ID = 84532

// Addresses of the contracts on the chain of Start, the official ones of Base Sepolia.
var (
	USDC       = common.HexToAddress("0x036CbD53842c5426634e7929541eC2318f3dCF7e")
	Multicall3 = common.HexToAddress("0xcA11bde05977b3631167028862bE2a173976CA11")
)

// Network is what tells chains apart.
type Network struct {
	// ID is the EIP-155 chain id.
	ID int64
	// USDC is the address of the token.
	USDC common.Address
	// Token is the token's name in signatures (EIP-712). Ours has the name "USDC" everywhere.
	Token string
}

// Networks whose USDC has the EIP-712 name "USDC".
var (
	BaseSepolia = Network{ID, USDC, "USDC"}
	Celo        = Network{42220, common.HexToAddress("0xcebA9300f2b948710d2653dD7B07f33A8B32118C"), "USDC"}
)

// Wallet is a contract wallet (EIP-1271) that approves every signature.
var Wallet = common.HexToAddress("0x00000000000000000000000000000000000A11ce")

// Funds is the balance in atomic units of USDC (1,000 USDC) that each buyer, the Payer and the Wallet start with.
const Funds = 1_000_000_000

// tick is how often the miner looks for pending transactions.
const tick = 20 * time.Millisecond

// Chain is a running chain. Its miner makes a block when transactions are pending, and only then.
type Chain struct {
	Network
	// URL is the address of the JSON-RPC endpoint.
	URL string
	// Buyers hold USDC and no ether.
	Buyers [2]*ecdsa.PrivateKey
	// Facilitator holds ether and no USDC.
	Facilitator *ecdsa.PrivateKey
	// Owner owns the wallets of OpenWallet. Its own account holds USDC and delegates to one (EIP-7702).
	Owner *ecdsa.PrivateKey
	// Payer holds both, and pays without a facilitator.
	Payer *ecdsa.PrivateKey

	stack   *node.Node
	server  *httptest.Server
	backend *eth.Ethereum
	client  *ethclient.Client

	// sealing guards the beacon, which is not safe for concurrent use, and paused.
	sealing sync.Mutex
	beacon  *catalyst.SimulatedBeacon
	paused  bool
}

// Start runs a new chain with the id of Base Sepolia and new keys until the test ends.
func Start(t testing.TB) *Chain {
	t.Helper()
	return StartNetwork(t, BaseSepolia)
}

// StartNetwork is Start for another network.
func StartNetwork(t testing.TB, network Network) *Chain {
	t.Helper()
	c := &Chain{Network: network, Buyers: [2]*ecdsa.PrivateKey{NewKey(t), NewKey(t)}, Facilitator: NewKey(t), Owner: NewKey(t), Payer: NewKey(t)}
	c.open(t)
	t.Cleanup(func() { c.close(t) })

	// The block after genesis has the time of day, so that a call against the latest block sees it.
	c.Mine(t, 1)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go c.mine(stop, stopped)
	t.Cleanup(func() {
		close(stop)
		<-stopped
	})
	return c
}

// NewKey returns the key of a new account.
func NewKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	return key
}

// open assembles the node as go-ethereum's package ethclient/simulated does. That package hides the node, and with it
// its handler of JSON-RPC.
func (c *Chain) open(t testing.TB) {
	t.Helper()
	nodeConfig := node.DefaultConfig
	nodeConfig.DataDir = ""
	nodeConfig.P2P = p2p.Config{NoDiscovery: true}
	stack, err := node.New(&nodeConfig)
	require.NoError(t, err)

	ethConfig := ethconfig.Defaults
	ethConfig.Genesis = c.genesis()
	ethConfig.SyncMode = ethconfig.FullSync
	ethConfig.TxPool.NoLocals = true
	ethConfig.LogNoHistory = true
	backend, err := eth.New(stack, &ethConfig)
	require.NoError(t, err)
	stack.RegisterAPIs([]rpc.API{{
		Namespace: "eth",
		Service:   filters.NewFilterAPI(filters.NewFilterSystem(backend.APIBackend, filters.Config{})),
	}})
	require.NoError(t, stack.Start())
	beacon, err := catalyst.NewSimulatedBeacon(0, common.Address{}, backend)
	require.NoError(t, err)
	require.NoError(t, beacon.Fork(backend.BlockChain().GetCanonicalHash(0)))

	c.stack, c.backend, c.beacon = stack, backend, beacon
	c.client = ethclient.NewClient(stack.Attach())
	// The node's own HTTP server compresses every answer.
	handler, err := stack.RPCHandler()
	require.NoError(t, err)
	c.server = httptest.NewServer(handler)
	c.URL = c.server.URL
}

func (c *Chain) close(t testing.TB) {
	c.server.Close()
	c.client.Close()
	require.NoError(t, c.beacon.Stop())
	require.NoError(t, c.stack.Close())
}

func (c *Chain) genesis() *core.Genesis {
	config := *params.AllDevChainProtocolChanges
	config.ChainID = big.NewInt(c.ID)
	// With these forks, the node migrates its empty store of blobs at each start.
	config.OsakaTime, config.BogotaTime = nil, nil

	balances := map[common.Hash]common.Hash{balanceSlot(Wallet): common.BigToHash(big.NewInt(Funds))}
	for _, key := range append(c.Buyers[:], c.Payer) {
		balances[balanceSlot(Address(key))] = common.BigToHash(big.NewInt(Funds))
	}
	for _, wallet := range []common.Address{oneOwner, passkey, Address(c.Owner)} {
		balances[balanceSlot(wallet)] = common.BigToHash(big.NewInt(Funds))
	}
	alloc := core.SystemContractAllocs()
	// Each block calls the system contracts three times. They do nothing here, because no test reads what they store.
	for address, account := range alloc {
		account.Code = []byte{byte(vm.STOP)}
		alloc[address] = account
	}
	maps.Copy(alloc, types.GenesisAlloc{
		c.USDC:                 {Code: contracts.USDC(), Storage: balances},
		Multicall3:             {Code: contracts.Multicall3()},
		Wallet:                 {Code: walletCode},
		Address(c.Facilitator): {Balance: new(big.Int).Mul(big.NewInt(params.Ether), big.NewInt(1000))}, // for thousands of buyers
		Address(c.Payer):       {Balance: big.NewInt(params.Ether)},
	})
	maps.Copy(alloc, c.walletsAlloc())
	return &core.Genesis{Config: &config, GasLimit: ethconfig.Defaults.Miner.GasCeil, Alloc: alloc}
}

// walletCode answers every call with the magic value of EIP-1271:
// PUSH4 0x1626ba7e PUSH1 0xe0 SHL PUSH0 MSTORE PUSH1 0x20 PUSH0 RETURN.
var walletCode = common.FromHex("631626ba7e60e01b5f5260205ff3")

// mine makes a block whenever transactions are pending, until stop is closed.
//
// Block times are whole seconds and must rise. A second block in the same second would be dated into the future, and
// after many of them the chain would be ahead of the clock that payments are signed by; so such a block waits.
func (c *Chain) mine(stop <-chan struct{}, stopped chan<- struct{}) {
	defer close(stopped)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-ticker.C:
			c.sealing.Lock()
			head := c.backend.BlockChain().CurrentBlock()
			if pending, _ := c.backend.TxPool().Stats(); pending > 0 && !c.paused && uint64(now.Unix()) > head.Time {
				c.beacon.Commit()
			}
			c.sealing.Unlock()
		}
	}
}

// Address returns the account of a key.
func Address(key *ecdsa.PrivateKey) common.Address { return crypto.PubkeyToAddress(key.PublicKey) }

// NewAddress returns a new account.
func NewAddress(t testing.TB) common.Address {
	t.Helper()
	return Address(NewKey(t))
}
