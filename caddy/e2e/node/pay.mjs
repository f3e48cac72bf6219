// What both buyers share: one POST to URL by a paying fetch, and one line of JSON on what came back.
import { privateKeyToAccount } from "viem/accounts";

// The process ends with the test that started it.
process.stdin.on("end", () => process.exit(1)).resume();

export const account = privateKeyToAccount(process.env.PRIVATE_KEY);

// pay prints {"status", "body", "payment"}: payment is the decoded settlement, null when the answer names none.
export async function pay(payingFetch, header, decode) {
  const response = await payingFetch(process.env.URL, { method: "POST" });
  const settlement = response.headers.get(header);
  console.log(
    JSON.stringify({
      status: response.status,
      body: await response.text(),
      payment: settlement === null ? null : decode(settlement),
    }),
  );
  process.exit();
}
