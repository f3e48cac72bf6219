package offer

import (
	"fmt"
	"slices"

	"github.com/btcsuite/btcd/address/v2"
)

// Opcodes of the output scripts that an address stands for.
const (
	opFalse       = 0x00
	opOne         = 0x51
	opDup         = 0x76
	opEqual       = 0x87
	opEqualVerify = 0x88
	opHash160     = 0xa9
	opCheckSig    = 0xac
)

// Address is the address at an index of the external chain, or the one
// address of a rail without an extended key.
func (b *Bitcoin) Address(index uint32) (string, error) {
	a, err := b.address(index)
	if err != nil {
		return "", err
	}
	return a.EncodeAddress(), nil
}

// ScriptPubKey is the output script of Address(index). It names the payee
// where an address may be written in several ways.
func (b *Bitcoin) ScriptPubKey(index uint32) ([]byte, error) {
	a, err := b.address(index)
	if err != nil {
		return nil, err
	}
	program := a.ScriptAddress()
	push := append([]byte{byte(len(program))}, program...)
	switch a.(type) {
	case *address.AddressPubKeyHash:
		return slices.Concat([]byte{opDup, opHash160}, push, []byte{opEqualVerify, opCheckSig}), nil
	case *address.AddressScriptHash: // BIP-16
		return slices.Concat([]byte{opHash160}, push, []byte{opEqual}), nil
	case *address.AddressTaproot: // BIP-341
		return append([]byte{opOne}, push...), nil
	default: // BIP-141: a hash of a key or of a script, told apart by its length
		return append([]byte{opFalse}, push...), nil
	}
}

func (b *Bitcoin) address(index uint32) (address.Address, error) {
	if b.key == nil {
		return b.single, nil
	}
	child, err := b.key.Derive(index)
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
