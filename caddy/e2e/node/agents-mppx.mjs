// An agent with the official client of MPP, mppx, that pays over HTTP and then over MCP, as the Payment scheme has it.
//
// Environment: URL, the service; PRIVATE_KEY (0x and 64 hexadecimal digits). It prints one line of JSON: "requests", the
// names of the headers of each HTTP request, "status", "receipt" and "body" of the last answer, and "result", what the tool
// of MCP returned, with its "receipt", and "capability", what the MCP server says of payments.
import { Receipt } from "mppx";
import { evm, Mppx } from "mppx/client";
import { McpClient } from "mppx/mcp/client";
import { mcpClient, settled } from "./agents.mjs";
import { account } from "./pay.mjs";

const methods = [evm.charge({ account, currencies: [evm.assets.baseSepolia.USDC], maxAmount: "42" })];

// The names of the headers of every request. One that is answered by 503 is sent again, as when the service has just started.
const requests = [];
const mppx = Mppx.create({
  polyfill: false,
  methods,
  fetch: (input, init) => {
    const request = new Request(input, init);
    requests.push([...request.headers.keys()]);
    return settled(
      () => fetch(request.clone()),
      ({ status, headers }) => ({ retryAfterSeconds: status === 503 ? headers.get("Retry-After") : undefined }),
    );
  },
});
const response = await mppx.fetch(new URL("/v1/sponsor", process.env.URL).href, { method: "POST" });
const receipt = response.headers.get("Payment-Receipt");

const client = await mcpClient();
const { tools } = await client.listTools();
const result = await McpClient.wrap(client, { methods }).callTool({ name: tools[0].name });

console.log(
  JSON.stringify({
    requests,
    status: response.status,
    receipt: receipt === null ? null : Receipt.deserialize(receipt),
    body: await response.text(),
    capability: client.getServerCapabilities().experimental?.payment ?? null,
    result,
  }),
);
process.exit();
