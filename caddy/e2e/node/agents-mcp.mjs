// An agent with the official MCP client for TypeScript that pays by the x402 MCP transport: it calls the tool, signs what
// the result demands with the official x402 client, and calls the tool again with the payment.
//
// Environment: URL, the service; PRIVATE_KEY (0x and 64 hexadecimal digits). It prints one line of JSON: the names of the
// tools, and the tool's results "quote", "paid" and "again", which is the answer to the same payment sent twice.
import { mcpClient, signer } from "./agents.mjs";

const client = await mcpClient();
const { tools } = await client.listTools();
const call = (_meta) => client.callTool({ name: tools[0].name, _meta });
const quote = await call();
const payment = { "x402/payment": await signer.createPaymentPayload(quote.structuredContent) };
const paid = await call(payment);
const again = await call(payment);

console.log(
  JSON.stringify({
    tools: tools.map(({ name }) => name),
    quote,
    paid,
    again,
  }),
);
process.exit();
