// Looks at pages, by the commands of drive.mjs.
import * as inPage from "./in_page.mjs";
import { audit, launch, serve } from "./drive.mjs";
import { dress, each, lanes, make, stopClock } from "./lanes.mjs";
import { payCommands } from "./pay.mjs";
import * as tabs from "./tabs.mjs";
import { visit } from "./visit.mjs";

const browser = await launch();

const all = lanes(browser, 2);

// open opens a page in a session of its own.
async function open(view) {
  const made = await make(browser, view);
  made.view = view;
  await dress(made, view);
  return made;
}

async function look(lane, view) {
  const { page, seen } = await lane.open(view);
  await page.evaluate(inPage.loadImages);
  if (view.screenshot) await page.screenshot({ path: view.screenshot, fullPage: true });
  const found = await page.evaluate(inPage.describe);
  const violations = view.audit ? await audit(page, "html", { preload: false }) : [];
  return { ...seen, ...found, violations };
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
  resize: async (page) => {
    for (const width of [120, 1000]) await page.setViewportSize({ width, height: 800 });
  },
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

async function wait(lane, { url, does, reducedMotion }) {
  const { page, seen } = await lane.open({ url, reducedMotion });
  const before = await page.locator("body").innerText();
  await page.clock.runFor(3_000);
  const after = await page.locator("body").innerText();
  await deeds[does](page);
  await page.clock.runFor(60_000);
  if (does === "nothing" && !reducedMotion) await leaves(page);
  return { before, after, url: page.url(), height: await page.evaluate(() => document.documentElement.scrollHeight), text: await page.locator("body").innerText(), messages: seen.messages };
}

const begin = async (view) => void (await tabs.begin(await open(view), view, stopClock));

// Many of one kind are done beside each other.
const many = (one) => (list) => each(all, list, one);

await serve({ looks: many(look), waits: many(wait), visits: many(visit), begin, ...payCommands(all[0], many, open, stopClock), ...tabs.commands });
await browser.close();
