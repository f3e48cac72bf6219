// Pays on pages with wallets that are scripted, by the commands of ../browser/drive.mjs. A person is a session of the
// browser, with wallets, tabs and what the browser stores.
import { audit, launch, serve } from "../browser/drive.mjs";
import { stopClock } from "../browser/lanes.mjs";
import { announce, announcement, answer, count, happens, next, scripted } from "./purse.mjs";

const browser = await launch();
const people = {};
// left are the sessions of people who have left, by how they were made: to make one takes longer than to look at a page.
const left = {};
// audited are the kinds of what is shown that axe-core has looked at.
const audited = new Set();
// patience is how long a page may take to show something, in milliseconds: far more than it does on a busy machine.
const patience = 25_000;

// intervene does with a request for a payment, or for its terms, what the weather wants. The first that fits is used up.
async function intervene(person, route) {
  const kind = route.request().headers()["payment-signature"] ? "payment" : "quote";
  const at = person.weather.findIndex((w) => w.of === kind);
  if (at < 0) return route.continue();
  const [{ does, status, headers, body }] = person.weather.splice(at, 1);
  switch (does) {
    case "abort": // it never leaves
      return route.abort();
    case "lose": // its answer never arrives
      await route.fetch();
      return route.abort();
    case "hold": // until the tab is closed
      return happens(person.holding);
    case "answer":
      return route.fulfill({ status, headers, body });
    case "divert": { // somebody changes the terms
      const response = await route.fetch();
      const terms = JSON.parse(Buffer.from(response.headers()["payment-required"], "base64"));
      Object.assign(terms.accepts[0], JSON.parse(body));
      const changed = Buffer.from(JSON.stringify(terms)).toString("base64");
      return route.fulfill({ response, headers: { ...response.headers(), "payment-required": changed } });
    }
  }
}

// words find a text, or one of several between bars, in which a wallet's name may stand between two marks.
const words = (text) => text.replace(/(?!\|)[\p{P}\p{S}]/gu, "\\$&").replaceAll(" ", "\\s[\u2068]?");

const person = ({ who }) => people[who];
const tab = ({ who, tab }) => people[who].session.tabs[tab];

// What runs inside of a page: shows tells whether a text is in a place for wallets, where nothing is under way if it is to be
// idle; focuses has the one button or question with a text get the focus, if it is there.
const shows = ({ words, idle }) =>
  [...document.querySelectorAll(".wallet")].some((place) => new RegExp(words).test(place.textContent)) &&
  (!idle || document.querySelector(".wallet:not(:has(button[disabled], > .actions[hidden]))") !== null);
const focuses = ({ words }) => {
  const found = [...document.querySelectorAll(".wallet :is(button:enabled, summary)")].filter(
    (element) => new RegExp(words).test(element.textContent) && element.checkVisibility({ visibilityProperty: true }),
  );
  if (found.length > 1) throw new Error(`${found.length} buttons of that name`);
  found[0]?.focus();
  return found.length === 1;
};

// until waits until one of these holds in a page. It looks when something changes: to have Playwright wait takes it its own
// large script in every page.
async function until(page, holds, given) {
  const watch = (holds, given) => new Promise((done, fail) => {
    const look = () => {
      try {
        if (!holds(given)) return;
        done();
      } catch (error) {
        fail(error);
      }
      observer.disconnect();
    };
    const observer = new MutationObserver(look);
    observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
    look();
  });
  let timer;
  const late = new Promise((_, fail) => (timer = setTimeout(fail, patience)));
  try {
    await Promise.race([page.evaluate(`(${watch})(${holds}, ${JSON.stringify(given)})`), late]);
  } catch (error) {
    const text = await page.evaluate(() => [...document.querySelectorAll(".wallet")].map((place) => place.innerText));
    throw new Error(`${JSON.stringify(given)} is not in ${JSON.stringify(text)}: ${error?.message}`);
  } finally {
    clearTimeout(timer);
  }
}

// session is a browser without anything stored, in which wallets can be announced: one that was left, or a new one.
async function session(made) {
  const kind = JSON.stringify(made);
  const before = left[kind]?.pop();
  if (before) return before;
  const context = await browser.newContext({
    viewport: { width: 390, height: 800 }, isMobile: made.phone, hasTouch: made.phone, locale: "en", ignoreHTTPSErrors: true,
  });
  context.setDefaultTimeout(patience);
  const s = { context, kind, tabs: {} };
  await context.exposeFunction("askWallet", (id, method, params) => {
    const wallet = s.person.wallets[id], holds = wallet.hold === method, answered = answer(wallet, method, params);
    if (holds) wallet.answers.push(answered);
    return answered;
  });
  if (made.noLocks) await context.addInitScript(() => Object.defineProperty(navigator, "locks", { value: undefined }));
  if (made.noStorage) await context.addInitScript(() => (Storage.prototype.setItem = () => { throw new DOMException("full", "QuotaExceededError"); }));
  if (made.clock) {
    await stopClock({ context, page: context }, Date.now());
    await context.addInitScript(() => {
      AbortSignal.timeout = (milliseconds) => {
        const aborts = new AbortController();
        setTimeout(() => aborts.abort(new DOMException("", "TimeoutError")), milliseconds);
        return aborts.signal;
      };
    });
  }
  await context.route("**/v1/sponsor", (route) => intervene(s.person, route));
  context.on("request", (request) => {
    const header = request.headers()["payment-signature"];
    if (header) s.person.sent.push(header);
  });
  context.on("weberror", (error) => s.person.messages.push(String(error.error())));
  context.on("console", (message) => {
    if (message.text().includes("Content Security Policy")) s.person.messages.push(message.text());
  });
  context.on("dialog", (dialog) => {
    s.person.messages.push(dialog.message());
    return dialog.dismiss();
  });
  return s;
}

const commands = {
  // meet makes a person with wallets. The clock of one with a clock is moved by the test only.
  async meet({ who, wallets = [], phone = false, noLocks = false, noStorage = false, clock = false }) {
    const p = (people[who] = { session: await session({ phone, noLocks, noStorage, clock }), wallets: wallets.map(scripted) });
    Object.assign(p, { weather: [], holding: count(), sent: [], messages: [] });
    p.session.person = p;
    p.announced = await p.session.context.addInitScript(announce, p.wallets.map(announcement));
  },

  // open opens a page in a tab.
  async open({ url, ...given }) {
    const { tabs, context } = person(given).session;
    tabs[given.tab] ??= await context.newPage();
    await tabs[given.tab].goto(url);
  },

  reload: (given) => tab(given).reload(),
  async close(given) {
    await tab(given).close();
    delete person(given).session.tabs[given.tab];
  },

  // appear lets a wallet come to a page after its scripts ran.
  appear: (given) => tab(given).evaluate((wallet) => window.appear(wallet), announcement(person(given).wallets[0], 0)),

  // press presses a button as people without a pointer do, or what unfolds a question.
  async press(given) {
    await until(tab(given), focuses, { words: words(given.name) });
    await tab(given).keyboard.press("Enter");
  },

  // key presses a key where the focus is, and returns what has it then.
  async key(given) {
    await tab(given).keyboard.press(given.key);
    return tab(given).evaluate(() => document.activeElement.textContent);
  },

  // pass lets time pass in a tab.
  pass: (given) => tab(given).clock.runFor(given.milliseconds),

  // read waits until a text is shown and returns all of it. Until then milliseconds pass again and again, where that is asked for.
  async read({ text, idle, passing, ...given }) {
    const page = tab(given), awaited = { words: words(text), idle };
    for (const end = Date.now() + patience; passing && Date.now() < end && !(await page.evaluate(shows, awaited)); ) await page.clock.runFor(passing);
    await until(page, shows, awaited);
    const { kind, ...shown } = await page.evaluate(async () => {
      const place = document.querySelector(".wallet"), seen = (element) => element.checkVisibility();
      for (const icon of place.querySelectorAll("img")) await icon.decode();
      return {
        text: place.innerText,
        status: place.querySelector("[role=status]").innerText.replace(/\s+/g, " "),
        step: place.querySelector(".steps > [aria-current=step]")?.innerText ?? "",
        buttons: [...place.querySelectorAll("button, summary")].filter(seen).map((b) => b.textContent),
        icons: [...place.querySelectorAll("button:not(.link)")].map((button) => button.querySelector("img")?.naturalWidth ?? 0),
        tabs: [...document.querySelectorAll("[role=tab]")].filter(seen).map((t) => t.textContent),
        links: [...place.querySelectorAll("p:not(.back) > a")].map((a) => a.href),
        focus: document.activeElement.textContent,
        html: place.innerHTML,
        // Of one kind is what differs only in its words, and in how many there are.
        kind: [...new Set([place, ...place.querySelectorAll("*")].filter(seen).map((e) => `${e.localName}.${e.className} ${e.getAttributeNames()} ${e.textContent !== ""}`))].join(),
      };
    });
    const looks = idle && !audited.has(kind);
    if (looks) audited.add(kind);
    return { ...shown, violations: looks ? await audit(page, ".wallet", { preload: false }) : [] };
  },

  // controls are the links, enabled buttons, questions and codes that a person can see, in each row and tab as it is
  // open. most is how many buttons of one view are filled.
  controls: (given) => tab(given).evaluate(() => {
    const seen = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
    const all = (selector, within = document) => [...within.querySelectorAll(selector)].filter(seen);
    const probe = document.body.appendChild(Object.assign(document.createElement("a"), { className: "button" }));
    const filled = getComputedStyle(probe).backgroundColor, found = new Set(), rows = all(".way"), opened = rows.find((row) => row.open);
    probe.remove();
    const focus = document.activeElement;
    let most = 0;
    const look = (row) => {
      for (const code of row.querySelectorAll("details.qr")) code.open = true;
      for (const control of all("main :is(a, button:enabled, .ask > summary, .qr img)")) {
        const { protocol, origin, pathname } = new URL(control.href ?? location.href);
        const name = control.textContent.replace(/[\u2068\u2069]/g, "");
        if (control.localName === "img") found.add(`code of ${row.querySelector(".rail").id}`);
        else if (control.localName === "summary") found.add(`question ${name}`);
        else if (control.localName === "button") found.add(`button ${name}`);
        else if (!protocol.startsWith("http")) found.add(protocol);
        else found.add((origin === location.origin ? "" : origin) + pathname.replace(/^\/v1\/receipt\/.*/, "/v1/receipt"));
      }
      most = Math.max(most, all("a, button").filter((control) => getComputedStyle(control).backgroundColor === filled).length);
    };
    for (const row of rows) {
      row.open = true;
      look(row);
      const tabs = all("[role=tab]", row), selected = tabs.find((tab) => tab.ariaSelected === "true");
      for (const tab of tabs) {
        tab.click();
        look(row);
      }
      selected?.click();
    }
    if (opened) opened.open = true;
    focus.focus({ preventScroll: true });
    return { all: [...found].filter((name) => !/^button (In this browser|Another wallet)$/.test(name)), most };
  }),

  // launch follows the link to a wallet as people do, which opens nothing in this browser.
  async launch(given) {
    const page = tab(given);
    if (await page.locator("[role=tablist]").first().isVisible()) await page.locator("[role=tab]").nth(1).click();
    await page.locator('.by-hand a[href^="ethereum:"]').click();
  },

  // picture takes a picture of the whole page.
  async picture(given) {
    const page = tab(given);
    await page.setViewportSize({ width: given.width, height: 800 });
    await page.emulateMedia({ colorScheme: given.dark ? "dark" : "light" });
    await page.screenshot({ path: given.path, fullPage: true });
    await page.setViewportSize({ width: 390, height: 800 });
  },

  // follow follows the link that a selector finds, as people without a pointer do.
  async follow({ link, ...given }) {
    const page = tab(given);
    await page.evaluate((link) => document.querySelector(link).focus(), link);
    await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
    return commands.text(given);
  },

  // back is the Back key.
  back: (given) => tab(given).goBack(),

  // headings are the levels of those that a screen reader finds.
  headings: (given) => tab(given).evaluate(() => [...document.querySelectorAll("h1, h2, h3")].filter((heading) => heading.checkVisibility()).map((heading) => heading.localName)),

  // edges are where the words of the buttons begin, in pixels.
  edges: (given) => tab(given).evaluate(() => [...document.querySelectorAll(".wallet .button")].map((button) => {
    const range = document.createRange();
    range.selectNodeContents(button.lastChild);
    return Math.round(range.getBoundingClientRect().left);
  })),

  // spins tells whether the current step turns, with motion and with less of it.
  async spins(given) {
    const page = tab(given), found = [];
    for (const reducedMotion of ["no-preference", "reduce"]) {
      await page.emulateMedia({ reducedMotion });
      found.push(await page.evaluate(() => getComputedStyle(document.querySelector(".wallet .steps > [aria-current]"), "::before").animationName));
    }
    return found;
  },

  // text is that of the page.
  text: async (given) => ({ url: tab(given).url(), text: await tab(given).evaluate(() => document.querySelector("main").innerText) }),

  // choose chooses the panel of a tab, answer answers the question about a new payment, and polls waits until the page has looked
  // for one.
  choose: (given) => tab(given).getByRole("tab", { name: given.name }).click(),
  answer: (given) => tab(given).locator("#arrived").getByText(given.name).click(),
  async polls(given) {
    const page = tab(given);
    await (await page.waitForResponse((response) => response.url().endsWith("/v1/received"))).finished();
    await page.evaluate(() => fetch("/favicon.svg").then((icon) => icon.text())); // after the page has read it
  },

  // unfold opens the row of a payment method.
  unfold: (given) => tab(given).locator(`.way:has(#${given.rail}) > summary`).click(),

  // stored is what the browser keeps for the page; keep has it keep something.
  stored: (given) => tab(given).evaluate(() => ({ ...localStorage })),
  keep: (given) => tab(given).evaluate(([key, value]) => localStorage.setItem(key, value), [given.key, given.value]),

  // thaw shows a tab as out of the back/forward cache, which this browser does not have.
  thaw: (given) => tab(given).evaluate(() => void dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }))),

  // become changes a wallet.
  async become(given) {
    Object.assign(person(given).wallets[given.wallet ?? 0], given.changes);
  },

  async weather(given) {
    person(given).weather.push(...given.weather);
  },

  // held waits until the weather holds one more request, and holds until a wallet holds one more question.
  held: (given) => next(person(given).holding),
  holds: (given) => next(person(given).wallets[0].holding),

  // answers lets a wallet answer what it holds, and returns when the page has the answers.
  async answers(given) {
    const wallet = person(given).wallets[0];
    wallet.hold = "";
    for (const release of wallet.held) release();
    await Promise.all(wallet.answers);
    Object.assign(wallet, { held: [], answers: [] });
  },

  // did is what happened.
  did: ({ who }) => {
    const { sent, wallets, messages } = people[who];
    return { sent, messages, wallets: wallets.map(({ calls, added, signed }) => ({ calls, added, signed: signed.map((data) => data.message.nonce) })) };
  },

  // leave leaves the session with one empty tab to the next person.
  async leave({ who }) {
    const { session, announced } = people[who], { first, ...others } = session.tabs;
    for (const other of Object.values(others)) await other.close();
    if (first) {
      await first.evaluate(() => {
        window.store = () => {}; // of the script that looks for payments
        for (const kept of [localStorage, sessionStorage]) kept.clear();
      });
      await first.goto("about:blank");
    }
    await announced.dispose();
    session.tabs = first ? { first } : {};
    (left[session.kind] ??= []).push(session);
    delete people[who];
  },
};

await serve(commands);
await browser.close();
