// What the paying agents share: the official x402 client, with the limit per payment raised to the price, as every buyer
// must do.
import { setTimeout } from "node:timers/promises";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { x402Client } from "@x402/core/client";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { account } from "./pay.mjs";

export const signer = x402Client.fromConfig({
  schemes: [{ network: "eip155:*", client: new ExactEvmScheme(account) }],
  spendControls: { maxAmountPerPayment: "$42" },
});

// settled sends a payment by send until its outcome is known: told returns what became of it, which names the seconds
// after which the same payment is to be sent again, as when the service has just started and knows no facilitator yet.
export async function settled(send, told) {
  for (;;) {
    const answer = await send();
    const { retryAfterSeconds } = told(answer);
    if (retryAfterSeconds === undefined) return answer;
    await setTimeout(1000 * retryAfterSeconds);
  }
}

// mcpClient connects the official MCP client to the service. It sends each call again for as long as its outcome is not
// known, which clients that pay on top of it do not do.
export async function mcpClient() {
  const client = new Client({ name: "agent", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL("/mcp", process.env.URL)));
  const call = client.callTool.bind(client);
  client.callTool = (...request) => settled(() => call(...request), ({ structuredContent }) => structuredContent);
  return client;
}
