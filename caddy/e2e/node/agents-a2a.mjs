// An agent with the official A2A client for JavaScript that pays by the x402 extension of A2A: it resolves the card, asks
// for the offer, activates the extension, signs what the task demands with the official x402 client and sends the payment.
//
// Environment: URL, the service; PRIVATE_KEY (0x and 64 hexadecimal digits). It prints one line of JSON: "card", and the
// client's results "offer", a message, and "demand" and "paid", which are tasks.
import { randomUUID } from "node:crypto";
import { Role } from "@a2a-js/sdk";
import { ClientFactory, ServiceParameters, withA2AExtensions } from "@a2a-js/sdk/client";
import { settled, signer } from "./agents.mjs";

const client = await new ClientFactory().createFromUrl(process.env.URL);
const card = await client.getAgentCard();
const [extension] = card.capabilities.extensions;

const send = (text, options, more) =>
  client.sendMessage(
    {
      tenant: "",
      message: {
        messageId: randomUUID(),
        contextId: "",
        taskId: "",
        role: Role.ROLE_USER,
        parts: [{ content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "text/plain" }],
        metadata: undefined,
        extensions: [],
        referenceTaskIds: [],
        ...more,
      },
      configuration: undefined,
      metadata: undefined,
    },
    options,
  );
const paying = { serviceParameters: ServiceParameters.create(withA2AExtensions(extension.uri)) };

const offer = await send("How can I pay?");
const demand = await send("I would like to pay.", paying);
const required = demand.status.message.metadata["x402.payment.required"];
const payment = {
  taskId: demand.id,
  contextId: demand.contextId,
  metadata: {
    "x402.payment.status": "payment-submitted",
    "x402.payment.payload": await signer.createPaymentPayload(required),
  },
};
const paid = await settled(
  () => send("Here is the payment.", paying, payment),
  ({ status }) => status.message.parts[1].content.value,
);

console.log(JSON.stringify({ card, offer, demand, paid }));
process.exit();
