// Generates a client from the description in the file argv[2] into the folder argv[3] and calls each of its functions at
// BASE. Prints [{"method", "path", "status", "read"}]: read says whether the client made something of the answer's body.
import { createClient } from "@hey-api/openapi-ts";

const [description, folder] = process.argv.slice(2);
await createClient({
  input: description,
  output: { path: folder, module: { extension: ".ts" } },
  plugins: ["@hey-api/client-fetch", "@hey-api/sdk", "@hey-api/typescript"],
  logs: { level: "silent", file: false },
});
const operations = await import(folder + "/sdk.gen.ts");

const base = process.env.BASE;
const redirect = await fetch(base + "/v1/pay/card.png", { redirect: "manual" });
const [rail, image] = redirect.headers.get("location").split("/").slice(-2);
const needs = {
  getWellKnownWebfinger: { query: { resource: "acct:pay@" + new URL(base).host, rel: ["payment"] } },
  getV1QrRailImage: { path: { rail, image } },
  getV1ReceiptId: { path: { id: "unknown" } },
  getV1ReceiptIdReceiptJws: { path: { id: "unknown" } },
  postMcp: { body: { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "first_42_sponsor", arguments: {} } } },
};

const calls = [];
for (const [name, call] of Object.entries(operations)) {
  const { request, response, data, error } = await call({ baseUrl: base, redirect: "manual", ...needs[name] });
  const read = (data ?? error) !== undefined;
  calls.push({ method: request.method, path: new URL(request.url).pathname, status: response.status, read });
}
console.log(JSON.stringify(calls));
