// An agent with Cloudflare's buyer over MCP, which pays by x402. Its limit per payment is raised by its own option, which
// does so with the version of @x402/core that is locked here; newer ones have another limit below it.
//
// Environment: URL, the service; PRIVATE_KEY (0x and 64 hexadecimal digits). It prints the tool's result as one line of JSON.
import { withX402Client } from "agents/x402";
import { mcpClient } from "../agents.mjs";
import { account } from "../pay.mjs";

const client = await mcpClient();
const { tools } = await client.listTools();
const buyer = withX402Client(client, { network: "base-sepolia", account, maxPaymentValue: 42_000_000n });
console.log(JSON.stringify(await buyer.callTool(null, { name: tools[0].name })));
process.exit();
