// Looks the account argv[2] up. Prints {"links"}, or {"error"} where nobody knows the account.
import WebFinger from "webfinger.js";

const client = new WebFinger({ tls_only: true, uri_fallback: false, allow_private_addresses: true });
try {
  const { object } = await client.lookup(process.argv[2]);
  console.log(JSON.stringify({ links: object.links }));
} catch (error) {
  console.log(JSON.stringify({ error: String(error.message ?? error) }));
}
