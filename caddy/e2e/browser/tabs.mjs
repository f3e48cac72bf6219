// Tabs that stay open between commands.

const tabs = new Map();

// begin opens a page and keeps it. A scripted one has a clock that only pass moves on.
export async function begin({ context, page, seen }, { id, url, scripted }, stopClock) {
  const tab = { context, page, seen, loads: 0, under: new Set(), asked: [], answers: [], passed: 0 };
  tabs.set(id, tab);
  page.on("framenavigated", () => {
    tab.loads++;
    tab.under.clear(); // nobody waits for what the page before had asked for
  });
  const asks = (request) => request.resourceType() === "fetch" && !request.url().endsWith(".svg");
  page.on("request", (request) => {
    if (!asks(request)) return;
    tab.under.add(request);
    tab.asked.push(tab.passed);
  });
  page.on("requestfinished", async (request) => {
    if (!asks(request)) return;
    const answer = await request.response();
    if (tab.under.delete(request)) tab.answers.push(answer.status());
  });
  page.on("requestfailed", (request) => tab.under.delete(request));
  if (scripted) await stopClock(tab);
  await page.goto(url);
  return rest(tab);
}

// rest waits until the page has dealt with the answers to what it asked: what it is given later comes after them.
async function rest(tab) {
  do await tab.page.evaluate(() => fetch("/favicon.svg").then((icon) => icon.text()));
  while (tab.under.size > 0);
  await tab.page.evaluate(() => fetch("/favicon.svg").then((icon) => icon.text()));
}

export const commands = {
  // read returns what the page shows in an element, and how often it was loaded.
  async read({ id, selector }) {
    const { page, loads, seen, asked, answers } = tabs.get(id);
    return { text: (await page.evaluate((selector) => document.querySelector(selector).innerText, selector)).trim(), loads, messages: seen.messages, asked, answers };
  },
  // awaits waits until the page says something.
  async awaits({ id, selector, text }) {
    await tabs.get(id).page.locator(selector).getByText(text).first().waitFor();
  },
  // pass lets seconds go by for a scripted page, and waits after every few for what it asks. It returns after how many seconds
  // the page has asked.
  async pass({ id, seconds, step }) {
    const tab = tabs.get(id);
    const before = tab.asked.length;
    const start = tab.passed;
    for (let i = 0; i < seconds; i += step) {
      tab.passed += step;
      await tab.page.clock.runFor(step * 1_000);
      await rest(tab);
    }
    return tab.asked.slice(before).map((at) => at - start);
  },
  // turn hides the tab, or shows it again. A browser without a window never does, so the page is told so.
  async turn({ id, hidden }) {
    const tab = tabs.get(id);
    await tab.page.evaluate((hidden) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
    await rest(tab);
  },
  // come loads the page again, as a browser does with a tab that it has thrown away.
  async come({ id }) {
    const tab = tabs.get(id);
    await tab.page.reload();
    await rest(tab);
  },
  // go opens another page in the tab, and back is its Back key.
  async go({ id, url }) {
    await tabs.get(id).page.goto(url);
    await rest(tabs.get(id));
  },
  async back({ id }) {
    await tabs.get(id).page.goBack();
    await rest(tabs.get(id));
  },
  // leads are what the links that a person can see lead to, without those to other texts of the page.
  leads: ({ id }) => tabs.get(id).page.evaluate(() =>
    [...document.querySelectorAll("main a")].filter((link) => link.checkVisibility({ visibilityProperty: true })).map((link) => link.href)),
  // act does something in the page: a click, or the focus on an element.
  async act({ id, selector, does }) {
    await tabs.get(id).page.locator(selector).first()[does]();
  },
  // end closes all tabs.
  async end() {
    for (const { context } of tabs.values()) await context.close();
    tabs.clear();
  },
  async picture({ id, path }) {
    await tabs.get(id).page.screenshot({ path, fullPage: true });
  },
};
