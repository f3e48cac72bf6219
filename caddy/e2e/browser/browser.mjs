// Looks at pages, by the commands of drive.mjs.
import * as inPage from "./in_page.mjs";
import { axe, launch, serve } from "./drive.mjs";
import { payCommands } from "./pay.mjs";
import * as tabs from "./tabs.mjs";

const browser = await launch();

// open opens a page in a session of its own. Requests to other origins go nowhere: a document is answered with a line of
// text, anything else fails; both are noted.
async function open({ url, width = 1280, dark = false, noScript = false, reducedMotion = false }) {
  const origin = new URL(url).origin;
  const context = await browser.newContext({
    viewport: { width, height: 800 },
    colorScheme: dark ? "dark" : "light",
    javaScriptEnabled: !noScript,
    reducedMotion: reducedMotion ? "reduce" : "no-preference",
    permissions: ["clipboard-read", "clipboard-write"],
  });
  // Nothing here is late because it is slow: the tests have a limit of their own.
  context.setDefaultTimeout(300_000);
  const page = await context.newPage();
  const seen = { messages: [], foreign: [] };
  page.on("console", (message) => {
    if (["warning", "error"].includes(message.type())) seen.messages.push(message.text());
  });
  page.on("pageerror", (error) => seen.messages.push(String(error)));
  await context.route(
    (target) => target.origin !== origin && target.protocol.startsWith("http"),
    (route) => {
      seen.foreign.push(route.request().url());
      return route.request().isNavigationRequest() ? route.fulfill({ contentType: "text/html", body: "the checkout" }) : route.abort();
    },
  );
  return { context, page, seen };
}

// stopClock lets nothing on the page happen by time alone. An installed clock goes on until it is paused, at a time to come.
async function stopClock(page) {
  await page.clock.install({ time: 0 });
  await page.clock.pauseAt(3_600_000);
}

async function look(view) {
  const { context, page, seen } = await open(view);
  await stopClock(page);
  if (view.print) await page.emulateMedia({ media: "print" });
  await page.goto(view.url);
  await page.evaluate(inPage.loadImages);
  if (view.screenshot) await page.screenshot({ path: view.screenshot, fullPage: true });
  const found = await page.evaluate(inPage.describe);
  await page.clock.resume(); // the audit waits for itself
  const violations = view.audit ? await violationsOf(page) : [];
  await context.close();
  return { ...seen, ...found, violations };
}

async function violationsOf(page) {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => window.axe.run({ resultTypes: ["violations"] }));
  return violations.map((v) => `${v.impact}: ${v.id}: ${v.nodes.map((node) => node.target.join(" ")).join(", ")}`);
}

// leaves waits until the page has gone to the checkout, which takes a moment of real time.
const leaves = (page) => page.waitForURL((url) => url.protocol === "https:");

// What a person may do while the seconds pass.
const deeds = {
  nothing: async () => {},
  button: (page) => page.getByRole("button").dispatchEvent("click"), // as a screen reader does
  key: (page) => page.keyboard.press("Shift"),
  focus: (page) => page.getByRole("link").last().focus(),
  pointer: (page) => page.mouse.move(300, 300),
  scroll: async (page) => {
    await page.setViewportSize({ width: 1280, height: 200 });
    await page.evaluate(() => scrollBy(0, 100));
  },
  select: (page) => page.evaluate(() => getSelection().selectAllChildren(document.querySelector("h1"))),
  resize: (page) => page.setViewportSize({ width: 1000, height: 800 }),
  // A browser without a window never hides a tab, so the page is told so.
  leave: (page) =>
    page.evaluate(() => {
      Object.defineProperty(document, "hidden", { get: () => true });
      document.dispatchEvent(new Event("visibilitychange"));
    }),
  return: async (page) => {
    await page.clock.runFor(60_000);
    await leaves(page);
    await page.goBack();
  },
};

async function wait({ url, does, reducedMotion }) {
  const { context, page, seen } = await open({ url, reducedMotion });
  await stopClock(page);
  await page.goto(url);
  const before = await page.locator("body").innerText();
  await page.clock.runFor(3_000);
  const after = await page.locator("body").innerText();
  await deeds[does](page);
  await page.clock.runFor(60_000);
  if (does === "nothing" && !reducedMotion) await leaves(page);
  const end = { before, after, url: page.url(), text: await page.locator("body").innerText(), messages: seen.messages };
  await context.close();
  return end;
}

const begin = async (view) => void (await tabs.begin(await open(view), view, stopClock));

await serve({ look, wait, begin, ...payCommands(open, stopClock), ...tabs.commands });
await browser.close();
