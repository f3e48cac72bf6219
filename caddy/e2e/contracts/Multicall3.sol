// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title The one function of Multicall3 that x402 facilitators call.
/// @notice With it at 0xcA11bde05977b3631167028862bE2a173976CA11 a facilitator can say why a payment would fail.
contract Multicall3 {
    struct Call {
        address target;
        bytes callData;
    }

    struct Result {
        bool success;
        bytes returnData;
    }

    function tryAggregate(bool requireSuccess, Call[] calldata calls)
        external
        payable
        returns (Result[] memory returnData)
    {
        returnData = new Result[](calls.length);
        for (uint256 i = 0; i < calls.length; i++) {
            (bool success, bytes memory data) = calls[i].target.call(calls[i].callData);
            require(success || !requireSuccess, "Multicall3: call failed");
            returnData[i] = Result(success, data);
        }
    }
}
