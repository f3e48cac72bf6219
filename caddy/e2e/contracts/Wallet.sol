// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title A contract wallet (EIP-1271), for tests.
/// @notice The owner signs a hash that names the wallet too, as for Safe and Coinbase's smart wallet, so that nobody
/// but the contract can tell whose a signature is. One of 65 bytes is the owner's alone, as a Safe with one owner takes
/// it. A longer one is (uint256 owner, bytes signature) in the ABI, as a wallet with passkeys takes it.
contract Wallet {
    /// Storage slot 0. An account that delegates to this code (EIP-7702) has none and owns itself.
    address public owner;

    constructor(address owner_) {
        owner = owner_;
    }

    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        bytes memory inner = signature;
        if (signature.length != 65) (, inner) = abi.decode(signature, (uint256, bytes));
        require(inner.length == 65, "Wallet: signature length");
        bytes32 r;
        bytes32 s;
        uint8 v;
        assembly ("memory-safe") {
            r := mload(add(inner, 0x20))
            s := mload(add(inner, 0x40))
            v := byte(0, mload(add(inner, 0x60)))
        }
        address signer = ecrecover(keccak256(abi.encode(address(this), hash)), v, r, s);
        address expected = owner == address(0) ? address(this) : owner;
        return signer != address(0) && signer == expected ? this.isValidSignature.selector : bytes4(0xffffffff);
    }
}

/// @title Where wallets come from: anybody may deploy the wallet of an owner, which has its address before.
contract WalletFactory {
    function deploy(address owner) external {
        address wallet = addressOf(owner);
        if (wallet.code.length == 0) new Wallet{salt: 0}(owner);
    }

    function addressOf(address owner) public view returns (address) {
        bytes32 code = keccak256(abi.encodePacked(type(Wallet).creationCode, abi.encode(owner)));
        return address(uint160(uint256(keccak256(abi.encodePacked(bytes1(0xff), address(this), bytes32(0), code)))));
    }
}
