// Drives Chromium by lines of JSON: each {"command", "arguments"} on standard input is answered by {"result"} or {"error"}
// on standard output, until standard input closes.
//
// Environment: CHROMIUM, the browser's program; HOME, a folder of its own.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

// packages loads those that are installed for the tests.
export const packages = createRequire(new URL("../node/package.json", import.meta.url));
// axe is the text of axe-core: of its two files the smaller, for it takes longer to send it to the browser than to run it. What
// it comes to is large, too, and does not come back.
const axe = `${readFileSync(packages.resolve("axe-core/axe.min.js"))};0`;

export const { chromium } = packages("playwright-core");
export const options = {
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
};

export const launch = () => chromium.launch(options);

// audit is what axe-core finds wrong in a page, or in one element of it. A page whose clock is stopped has the real timer aside.
export async function audit(page, within = "html", options = {}) {
  if (await page.evaluate(() => !window.axe)) await page.evaluate(axe);
  return page.evaluate(
    async ([within, options]) => {
      const timer = window.setTimeout;
      window.setTimeout = window.realTimer ?? timer;
      const { violations } = await window.axe.run(within, { resultTypes: ["violations"], ...options });
      window.setTimeout = timer;
      return violations.map((v) => `${v.impact}: ${v.id}: ${v.nodes.map((node) => node.target.join(" ")).join(", ")}`);
    },
    [within, options],
  );
}

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
