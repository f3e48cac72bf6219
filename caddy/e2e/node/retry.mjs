// Buyers with an official client, each in a loop that calls it until an answer is a 200. The client signs anew at every
// call. Environment: PURCHASES, a JSON array of {"url", "key", "client", "address"}: 0x and 64 hexadecimal digits, the name of
// a buyer's script, and the IP address from which a proxy would say that the buyer comes, or ""; made at the same time. And
// SECONDS, after which a buyer gives up. Prints one line: an array of {"status", "body", "payment",
// "answers", "texts"}: the last answer as pay.mjs has it, the statuses of all, 0 for a connection that broke, and all that
// they say: the body and, decoded, the headers that speak of the payment.
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { setTimeout as sleep } from "node:timers/promises";
import { decodeXPaymentResponse, wrapFetchWithPayment } from "x402-fetch";
import { privateKeyToAccount } from "viem/accounts";

// The process ends with the test that started it.
process.stdin.on("end", () => process.exit(1)).resume();

const end = Date.now() + 1000 * Number(process.env.SECONDS);

const clients = {
  "pay-v1.mjs": {
    paying: (account) => wrapFetchWithPayment(fetch, account, 42_000_000n),
    header: "X-PAYMENT-RESPONSE",
    decode: decodeXPaymentResponse,
  },
  "pay-v2.mjs": {
    paying: (account) =>
      wrapFetchWithPaymentFromConfig(fetch, {
        schemes: [{ network: "eip155:*", client: new ExactEvmScheme(account) }],
        spendControls: { maxAmountPerPayment: "$42" },
      }),
    header: "PAYMENT-RESPONSE",
    decode: decodePaymentResponseHeader,
  },
};

const plain = (value) => Buffer.from(value ?? "", "base64").toString();

async function buy({ url, key, client, address }) {
  const { paying, header, decode } = clients[client];
  const payingFetch = paying(privateKeyToAccount(key));
  const headers = address === "" ? {} : { "X-Forwarded-For": address };
  const bought = { answers: [], texts: [] };
  for (;;) {
    try {
      const response = await payingFetch(url, { method: "POST", headers });
      const settlement = response.headers.get(header);
      bought.status = response.status;
      bought.body = await response.text();
      bought.payment = settlement === null ? null : decode(settlement);
      bought.texts.push([bought.body, plain(response.headers.get("PAYMENT-REQUIRED")), plain(settlement)].join("\n"));
    } catch (error) {
      bought.status = 0;
      bought.body = String(error);
      bought.payment = null;
      bought.texts.push(bought.body);
    }
    bought.answers.push(bought.status);
    if (bought.status === 200 || Date.now() >= end) return bought;
    await sleep(1000);
  }
}

const all = await Promise.all(JSON.parse(process.env.PURCHASES).map(buy));
// A pipe takes only so much at once.
process.stdout.write(JSON.stringify(all) + "\n", () => process.exit());
