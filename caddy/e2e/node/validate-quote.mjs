// Reads the quote at POST argv[2], as directories do, with the official library of the Bazaar and that of a directory.
// Prints {"schema", "spec", "listed", "issues"}: whether the info follows its schema and the extension's rules, what a
// facilitator would list, and what the directory finds.
import { validatePaymentRequiredDetailed } from "@agentcash/discovery";
import { extractDiscoveryInfo, validateDiscoveryExtension, validateDiscoveryExtensionSpec } from "@x402/extensions/bazaar";

const answer = await fetch(process.argv[2], { method: "POST" });
const quote = JSON.parse(Buffer.from(answer.headers.get("PAYMENT-REQUIRED"), "base64").toString());
const { bazaar } = quote.extensions;
const payment = { x402Version: 2, resource: quote.resource, accepted: quote.accepts[0], extensions: quote.extensions, payload: {} };
console.log(
  JSON.stringify({
    schema: validateDiscoveryExtension(bazaar),
    spec: validateDiscoveryExtensionSpec(bazaar),
    listed: extractDiscoveryInfo(payment, quote.accepts[0]),
    issues: validatePaymentRequiredDetailed(quote).issues,
  }),
);
