// Drives Chromium by lines of JSON: each {"command", "arguments"} on standard input is answered by {"result"} or {"error"}
// on standard output, until standard input closes.
//
// Environment: CHROMIUM, the browser's program; HOME, a folder of its own.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

// packages loads those that are installed for the tests.
export const packages = createRequire(new URL("../node/package.json", import.meta.url));
export const axe = packages("axe-core");

export const launch = () =>
  packages("playwright-core").chromium.launch({
    executablePath: process.env.CHROMIUM,
    // Without these Chromium calls its maker's hosts.
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });

// serve answers the lines, one after the other.
export async function serve(commands) {
  for await (const line of createInterface({ input: process.stdin })) {
    const { command, arguments: given } = JSON.parse(line);
    try {
      console.log(JSON.stringify({ result: (await commands[command](given)) ?? null }));
    } catch (error) {
      console.log(JSON.stringify({ error: error.stack }));
    }
  }
}
