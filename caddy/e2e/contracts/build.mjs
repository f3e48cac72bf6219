// Compiles the contracts of this folder and writes their runtime bytecode as hexadecimal text, one file a contract,
// into the folder named as first argument (default: this folder). The compiler is the one that ../node locks.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const solc = createRequire(new URL("../node/package.json", import.meta.url))("solc");

const folder = fileURLToPath(new URL(".", import.meta.url));
const target = process.argv[2] ?? folder;
// Each contract by the file that it is in.
const contracts = { Multicall3: "Multicall3.sol", USDC: "USDC.sol", Wallet: "Wallet.sol", WalletFactory: "Wallet.sol" };

const output = JSON.parse(
  solc.compile(
    JSON.stringify({
      language: "Solidity",
      sources: Object.fromEntries(
        Object.values(contracts).map((file) => [file, { content: readFileSync(join(folder, file), "utf8") }]),
      ),
      settings: {
        evmVersion: "cancun",
        optimizer: { enabled: true, runs: 200 },
        // Without metadata the bytecode depends on the code alone, not on comments.
        metadata: { appendCBOR: false, bytecodeHash: "none" },
        outputSelection: { "*": { "*": ["evm.deployedBytecode.object"] } },
      },
    }),
  ),
);

// A warning is an error here: this code stands in for money.
if (output.errors) {
  console.error(output.errors.map((error) => error.formattedMessage).join("\n"));
  process.exit(1);
}
for (const [name, file] of Object.entries(contracts)) {
  writeFileSync(join(target, `${name}.hex`), output.contracts[file][name].evm.deployedBytecode.object + "\n");
}
