// A buyer with the official x402 v2 client that keeps what the seller signed. Environment: URL, PRIVATE_KEY (0x and 64
// hexadecimal digits). It prints {"quote", "settlement"}, the headers of the 402 and of the paid answer as they came.
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { account } from "./pay.mjs";

let quote = null;
const payingFetch = wrapFetchWithPaymentFromConfig(
  async (...request) => {
    const response = await fetch(...request);
    quote ??= response.headers.get("PAYMENT-REQUIRED");
    return response;
  },
  {
    schemes: [{ network: "eip155:*", client: new ExactEvmScheme(account) }],
    spendControls: { maxAmountPerPayment: "$42" },
  },
);

const response = await payingFetch(process.env.URL, { method: "POST" });
console.log(JSON.stringify({ quote, settlement: response.headers.get("PAYMENT-RESPONSE") }));
process.exit();
