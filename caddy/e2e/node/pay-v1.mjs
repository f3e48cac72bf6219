// A buyer with the official x402 v1 client, x402-fetch. Environment: URL, PRIVATE_KEY (0x and 64 hexadecimal digits).
// The limit per payment is raised to the price in atomic units: by default the client refuses more than 0.1 USDC.
import { decodeXPaymentResponse, wrapFetchWithPayment } from "x402-fetch";
import { account, pay } from "./pay.mjs";

await pay(wrapFetchWithPayment(fetch, account, 42_000_000n), "X-PAYMENT-RESPONSE", decodeXPaymentResponse);
