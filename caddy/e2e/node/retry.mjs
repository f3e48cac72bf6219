// Buyers with the official x402 v2 client, @x402/fetch, each in a loop that calls it until an answer is a 200. The client
// signs anew at every call. Environment: PURCHASES, a JSON array of {"url", "key"} (0x and 64 hexadecimal digits), made at
// the same time, and SECONDS, after which a buyer gives up. Prints one line: an array of {"status", "body", "payment",
// "answers"}: the last answer as pay.mjs has it, and the statuses of all, 0 for a connection that broke.
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { setTimeout as sleep } from "node:timers/promises";
import { privateKeyToAccount } from "viem/accounts";

// The process ends with the test that started it.
process.stdin.on("end", () => process.exit(1)).resume();

const end = Date.now() + 1000 * Number(process.env.SECONDS);

async function buy({ url, key }) {
  const payingFetch = wrapFetchWithPaymentFromConfig(fetch, {
    schemes: [{ network: "eip155:*", client: new ExactEvmScheme(privateKeyToAccount(key)) }],
    spendControls: { maxAmountPerPayment: "$42" },
  });
  const bought = { status: 0, body: "", payment: null, answers: [] };
  while (bought.status !== 200 && Date.now() < end) {
    try {
      const response = await payingFetch(url, { method: "POST" });
      const settlement = response.headers.get("PAYMENT-RESPONSE");
      bought.status = response.status;
      bought.body = await response.text();
      bought.payment = settlement === null ? null : decodePaymentResponseHeader(settlement);
    } catch (error) {
      bought.status = 0;
      bought.body = String(error);
    }
    bought.answers.push(bought.status);
    if (bought.status !== 200) await sleep(1000);
  }
  return bought;
}

const all = await Promise.all(JSON.parse(process.env.PURCHASES).map(buy));
// A pipe takes only so much at once.
process.stdout.write(JSON.stringify(all) + "\n", () => process.exit());
