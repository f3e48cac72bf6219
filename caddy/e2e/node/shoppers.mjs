// Buyers with an official client who each want one thing and sign anew after every answer but 200, all at the same time.
//
// Environment: URL; CLIENT, v1 or v2; PRIVATE_KEYS (0x and 64 hexadecimal digits each) and ADDRESSES, from which the buyers
// come (X-Forwarded-For), both with commas between; PAUSE and PATIENCE, milliseconds between two tries and for all
// of them: with 0 there is one. It prints one line of JSON: for each buyer, the answers in their order: {"status", "text", "payment"}, where text is the
// body and the headers that speak of the payment, and payment the decoded settlement, null when the answer names none.
import { setTimeout } from "node:timers/promises";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { decodeXPaymentResponse, wrapFetchWithPayment } from "x402-fetch";
import { privateKeyToAccount } from "viem/accounts";

// The process ends with the test that started it.
process.stdin.on("end", () => process.exit(1)).resume();

const clients = {
  v1: {
    paying: (account) => wrapFetchWithPayment(fetch, account, 42_000_000n),
    header: "X-PAYMENT-RESPONSE",
    decode: decodeXPaymentResponse,
  },
  v2: {
    paying: (account) =>
      wrapFetchWithPaymentFromConfig(fetch, {
        schemes: [{ network: "eip155:*", client: new ExactEvmScheme(account) }],
        spendControls: { maxAmountPerPayment: "$42" },
      }),
    header: "PAYMENT-RESPONSE",
    decode: decodePaymentResponseHeader,
  },
};
const client = clients[process.env.CLIENT];
const addresses = process.env.ADDRESSES.split(",");

const plain = (value) => (value === null ? "" : Buffer.from(value, "base64").toString());

async function shop(key, n) {
  const payingFetch = client.paying(privateKeyToAccount(key));
  const answers = [];
  for (const end = Date.now() + Number(process.env.PATIENCE); ; ) {
    const response = await payingFetch(process.env.URL, { method: "POST", headers: { "X-Forwarded-For": addresses[n] } });
    const settlement = response.headers.get(client.header);
    answers.push({
      status: response.status,
      text: [plain(response.headers.get("PAYMENT-REQUIRED")), plain(settlement), await response.text()].join("\n"),
      payment: settlement === null ? null : client.decode(settlement),
    });
    if (response.status === 200 || Date.now() >= end) return answers;
    await setTimeout(Number(process.env.PAUSE));
  }
}

const all = await Promise.all(process.env.PRIVATE_KEYS.split(",").map(shop));
process.stdout.write(JSON.stringify(all) + "\n", () => process.exit());
