// An agent with an official client: it pays and gets the content in one call. If the answer has a cookie, as that of a gated
// address, the agent sends the request with the cookie, with the payment of the first call, and once more as a client that
// knows nothing, which signs again.
//
// Environment: PURCHASES, a JSON array of {"url", "method", "client", "key"}: GET or POST, "x402" or "mppx", 0x and 64
// hexadecimal digits; made one after the other. It prints one line of JSON, an array: "requests", how many were sent in the
// first call, and "paid", "byCookie", "byPayment" and "again", each with "status", "body", "cookie" and "receipt", whether the
// answer has the header of a settlement.
import dns from "node:dns";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { evm, Mppx } from "mppx/client";
import { privateKeyToAccount } from "viem/accounts";
import { settled } from "./agents.mjs";

// Node.js does not resolve the names below localhost (RFC 6761).
const { lookup } = dns;
dns.lookup = (host, ...rest) => lookup(host.endsWith(".localhost") ? "127.0.0.1" : host, ...rest);

// What was sent. A request that is answered by 503 is sent again, as when the service has just started.
let sent;
const recorded = (input, init) => {
  const request = new Request(input, init);
  return settled(
    () => {
      sent.push(request);
      return fetch(request.clone());
    },
    ({ status, headers }) => ({ retryAfterSeconds: status === 503 ? headers.get("Retry-After") : undefined }),
  );
};
const clients = {
  x402: (account) =>
    wrapFetchWithPaymentFromConfig(recorded, {
      schemes: [{ network: "eip155:*", client: new ExactEvmScheme(account) }],
      spendControls: { maxAmountPerPayment: "$42" },
    }),
  mppx: (account) => {
    const methods = [evm.charge({ account, currencies: [evm.assets.baseSepolia.USDC], maxAmount: "42" })];
    const { fetch } = Mppx.create({ polyfill: false, methods, fetch: recorded });
    return fetch;
  },
};

const told = async (response) => ({
  status: response.status,
  body: await response.text(),
  cookie: response.headers.getSetCookie().map((line) => line.split(";")[0]).join("; "),
  receipt: ["PAYMENT-RESPONSE", "Payment-Receipt"].some((name) => response.headers.has(name)),
});

async function visit({ url, method, client, key }) {
  const payingFetch = clients[client](privateKeyToAccount(key));
  sent = [];
  const paid = await told(await payingFetch(url, { method }));
  const found = { requests: sent.length, paid };
  if (paid.cookie === "") return found;
  const names = ["payment-signature", "authorization"];
  const payment = Object.fromEntries([...sent.at(-1).headers].filter(([name]) => names.includes(name)));
  found.byCookie = await told(await fetch(url, { method, headers: { cookie: paid.cookie } }));
  found.byPayment = await told(await fetch(url, { method, headers: payment }));
  found.again = await told(await payingFetch(url, { method }));
  return found;
}

const visits = [];
for (const purchase of JSON.parse(process.env.PURCHASES)) visits.push(await visit(purchase));
console.log(JSON.stringify(visits));
process.exit();
