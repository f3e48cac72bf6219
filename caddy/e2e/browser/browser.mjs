// Looks at pages, by the commands of drive.mjs.
import * as inPage from "./in_page.mjs";
import { audit, launch, serve } from "./drive.mjs";
import { dress, each, lanes, make, stopClock } from "./lanes.mjs";
import { payCommands } from "./pay.mjs";
import * as tabs from "./tabs.mjs";
import { fit, measure } from "./fit.mjs";
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

// heard does what a page hears of with its next frame, and waits until it has.
async function heard(page, event, act) {
  const hears = page.evaluate((event) => new Promise((done) => addEventListener(event, () => done(), { capture: true, once: true })), event);
  await act();
  await hears;
}

// What a person may do while the seconds pass.
const deeds = {
  nothing: async () => {},
  button: (page) => page.getByRole("button").dispatchEvent("click"), // as a screen reader does
  again: (page) => page.getByText("Yes, pay again").click(),
  key: (page) => page.keyboard.press("Shift"),
  focus: (page) => page.getByRole("link").last().focus(),
  pointer: (page) => page.mouse.move(300, 300, { steps: 3 }), // the first event has no movement
  scroll: async (page) => {
    await heard(page, "resize", () => page.setViewportSize({ width: 1280, height: 200 }));
    await heard(page, "scroll", () => page.evaluate(() => scrollBy(0, 100)));
  },
  select: (page) => heard(page, "selectionchange", () => page.evaluate(() => getSelection().selectAllChildren(document.querySelector("h1")))),
  resize: async (page) => {
    for (const width of [120, 1000]) await heard(page, "resize", () => page.setViewportSize({ width, height: 800 }));
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

// wait has a session of its own for each, for what was there before counts.
async function wait({ url, does, paid, reducedMotion }) {
  const used = await open({ url, reducedMotion });
  const { context, page, seen } = used;
  await stopClock(used);
  if (paid) {
    used.view = { url: paid };
    await page.goto(paid);
    used.view = { url };
  }
  await page.goto(url);
  const text = () => page.evaluate(() => document.body.innerText);
  const before = await text();
  await page.clock.runFor(3_000);
  const after = await text();
  await deeds[does](page);
  await page.clock.runFor(60_000);
  if (does === "nothing" && !reducedMotion && !paid) await leaves(page);
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  const end = { before, after, url: page.url(), text: await text(), height, messages: seen.messages };
  await context.close();
  return end;
}

const begin = async (view) => void (await tabs.begin(await open(view), view, stopClock));

// Many of one kind are done beside each other.
const many = (one) => (list) => each(all, list, one);

async function waits(list) {
  const ends = [];
  for (const one of list) ends.push(await wait(one));
  return ends;
}

await serve({ looks: many(look), fits: many(fit), measures: many(measure), waits, visits: many(visit), begin, ...payCommands(all[0], many, open, stopClock), ...tabs.commands });
await browser.close();
