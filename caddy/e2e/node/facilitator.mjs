// The official x402 facilitator (@x402/core with the exact scheme of @x402/evm, x402 versions 1 and 2) over HTTP on a
// free loopback port. It prints {"url": …} as one line and runs until its standard input closes.
//
// Environment: RPC_URL, the chain's JSON-RPC endpoint; PRIVATE_KEY, 0x and 64 hexadecimal digits, an account with ether.
import { createServer } from "node:http";
import { json } from "node:stream/consumers";
import { x402Facilitator } from "@x402/core/facilitator";
import { toFacilitatorEvmSigner } from "@x402/evm";
import { validateDiscoveryExtension } from "@x402/extensions/bazaar";
import { ExactEvmScheme } from "@x402/evm/exact/facilitator";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/facilitator";
import { createWalletClient, http, publicActions } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { baseSepolia } from "viem/chains";

const account = privateKeyToAccount(process.env.PRIVATE_KEY);
const client = createWalletClient({
  account,
  chain: baseSepolia,
  transport: http(process.env.RPC_URL),
  pollingInterval: 100,
}).extend(publicActions);

// Two broadcasts at a time would take the same account nonce. Only broadcasting is in turn, not waiting for receipts.
let last = Promise.resolve();
const inTurn = (send) => (args) => {
  const sent = last.then(() => send(args));
  last = sent.catch(() => {});
  return sent;
};

const signer = toFacilitatorEvmSigner({
  address: account.address,
  getCode: client.getCode,
  readContract: client.readContract,
  verifyTypedData: client.verifyTypedData,
  waitForTransactionReceipt: client.waitForTransactionReceipt,
  sendTransaction: inTurn(client.sendTransaction),
  writeContract: inTurn(client.writeContract),
});

// The chain's factory of wallets that are not deployed yet (ERC-6492).
const eip6492AllowedFactories = ["0x00000000000000000000000000000000000FAc70"];

const facilitator = new x402Facilitator()
  .register("eip155:84532", new ExactEvmScheme(signer, { eip6492AllowedFactories }))
  .registerV1("base-sepolia", new ExactEvmSchemeV1(signer));

const routes = {
  "GET /supported": () => facilitator.getSupported(),
  "POST /verify": ({ paymentPayload, paymentRequirements }) => facilitator.verify(paymentPayload, paymentRequirements),
  "POST /settle": ({ paymentPayload, paymentRequirements }) => facilitator.settle(paymentPayload, paymentRequirements),
};

// What a facilitator with a Bazaar says beside its answer: whether it lists what was paid for. To validate takes longer than
// to verify a payment, so each extension is validated once.
const listings = new Map();
const listing = (bazaar) => {
  const text = JSON.stringify(bazaar);
  if (!listings.has(text)) {
    const { valid, errors } = validateDiscoveryExtension(bazaar);
    const outcome = valid ? { status: "success" } : { status: "rejected", rejectedReason: errors.join(", ") };
    listings.set(text, Buffer.from(JSON.stringify({ bazaar: outcome })).toString("base64"));
  }
  return listings.get(text);
};

const server = createServer(async (request, response) => {
  const answer = (status, body) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(body));
  };
  const route = routes[`${request.method} ${request.url}`];
  if (!route) {
    answer(404, { error: "no such route" });
    return;
  }
  try {
    const body = request.method === "POST" ? await json(request) : undefined;
    const { bazaar } = body?.paymentPayload?.extensions ?? {};
    if (bazaar) {
      response.setHeader("EXTENSION-RESPONSES", listing(bazaar));
    }
    answer(200, await route(body));
  } catch (error) {
    console.error(error);
    answer(500, { error: String(error) });
  }
});

server.listen(0, "127.0.0.1", () => console.log(JSON.stringify({ url: `http://127.0.0.1:${server.address().port}` })));
process.stdin.on("end", () => process.exit()).resume();
