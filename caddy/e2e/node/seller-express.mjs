// The reference seller, @x402/express, unmodified, on a free loopback port: GET /report (charged after the answer was made)
// and POST /report (charged before, paymentFlow "upfront"), 42 USD on Base Sepolia each, with the extension
// payment-identifier. It prints {"url": …, "pid": …} as one line and runs until its standard input closes.
//
// Environment: FACILITATOR, the address of a facilitator; PAYEE, the address that is paid.
import { HTTPFacilitatorClient } from "@x402/core/server";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { paymentMiddleware, x402ResourceServer } from "@x402/express";
import { declarePaymentIdentifierExtension, paymentIdentifierResourceServerExtension } from "@x402/extensions/payment-identifier";
import express from "express";

const resources = new x402ResourceServer(new HTTPFacilitatorClient({ url: process.env.FACILITATOR }))
  .register("eip155:84532", new ExactEvmScheme())
  .registerExtension(paymentIdentifierResourceServerExtension);

const route = (extra) => ({
  accepts: { scheme: "exact", network: "eip155:84532", price: "$42", payTo: process.env.PAYEE, extra },
  description: "A report",
  mimeType: "text/plain",
  extensions: { "payment-identifier": declarePaymentIdentifierExtension(true) },
});

const app = express();
app.use(paymentMiddleware({ "GET /report": route(), "POST /report": route({ paymentFlow: "upfront" }) }, resources));
app.all("/report", (_, response) => response.type("text/plain").send("what was bought"));
const server = app.listen(0, "127.0.0.1", () => console.log(JSON.stringify({ url: `http://127.0.0.1:${server.address().port}`, pid: process.pid })));
process.stdin.on("end", () => process.exit()).resume();
