// Package contracts holds the runtime bytecode that the simulated chain starts with. README.md says how it was made.
package contracts

import (
	_ "embed"
	"encoding/hex"
	"strings"
)

//go:embed USDC.hex
var usdc string

//go:embed Multicall3.hex
var multicall3 string

//go:embed Wallet.hex
var wallet string

//go:embed WalletFactory.hex
var walletFactory string

// USDC returns the runtime bytecode of USDC.sol, an EIP-3009 token. Its balances are a mapping in storage slot 0.
func USDC() []byte { return decode(usdc) }

// Multicall3 returns the runtime bytecode of Multicall3.sol.
func Multicall3() []byte { return decode(multicall3) }

// Wallet returns the runtime bytecode of the wallet in Wallet.sol. Its owner is in storage slot 0.
func Wallet() []byte { return decode(wallet) }

// WalletFactory returns the runtime bytecode of the factory in Wallet.sol.
func WalletFactory() []byte { return decode(walletFactory) }

// decode panics on a damaged file: it is part of the program.
func decode(text string) []byte {
	code, err := hex.DecodeString(strings.TrimSpace(text))
	if err != nil {
		panic("contracts: embedded bytecode: " + err.Error())
	}
	return code
}
