// A buyer with the official x402 v2 client that keeps what the seller signed. Environment: URL, PRIVATE_KEY (0x and 64
// hexadecimal digits). It prints {"quote", "body", "settlement"}: header and body of the 402 and header of the paid answer,
// as they came.
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { account } from "./pay.mjs";

let quote = null;
let body = null;
const payingFetch = wrapFetchWithPaymentFromConfig(
  async (...request) => {
    const response = await fetch(...request);
    if (response.status === 402) {
      quote ??= response.headers.get("PAYMENT-REQUIRED");
      body ??= await response.clone().text();
    }
    return response;
  },
  {
    schemes: [{ network: "eip155:*", client: new ExactEvmScheme(account) }],
    spendControls: { maxAmountPerPayment: "$42" },
  },
);

const response = await payingFetch(process.env.URL, { method: "POST" });
console.log(JSON.stringify({ quote, body, settlement: response.headers.get("PAYMENT-RESPONSE") }));
process.exit();
