// A buyer with the official x402 v2 client, @x402/fetch. Environment: URL, PRIVATE_KEY (0x and 64 hexadecimal digits).
// The limit per payment is raised to the price, as every buyer must do: by default the client refuses more than $1.
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { account, pay } from "./pay.mjs";

const payingFetch = wrapFetchWithPaymentFromConfig(fetch, {
  schemes: [{ network: "eip155:*", client: new ExactEvmScheme(account) }],
  spendControls: { maxAmountPerPayment: "$42" },
});

await pay(payingFetch, "PAYMENT-RESPONSE", decodePaymentResponseHeader);
