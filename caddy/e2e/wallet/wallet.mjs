// Pays on pages with wallets that are scripted, by the commands of ../browser/drive.mjs. A person is a session of the
// browser, with wallets, tabs and what the browser stores.
import { audit, launch, packages, serve } from "../browser/drive.mjs";
import { stopClock } from "../browser/lanes.mjs";

const { privateKeyToAccount } = packages("viem/accounts");
const browser = await launch();
const people = {};

// error is one as wallets throw it.
const error = (code, message = "the wallet's own words") => ({ error: { code, message } });

// answer is what a wallet says to a page (EIP-1193).
async function answer(wallet, method, params) {
  wallet.calls.push(method);
  const fault = wallet.faults?.[method];
  if (fault) return error(fault.code, fault.message);
  if (wallet.hold === method) {
    await new Promise((release) => {
      wallet.release = release;
      wallet.holds();
    });
  }
  const account = privateKeyToAccount(wallet.key);
  const address = wallet.contract ?? account.address;
  switch (method) {
    case "eth_requestAccounts":
      return { result: wallet.locked ? [] : [address] };
    case "eth_accounts":
      return { result: wallet.forgetful ? [] : [wallet.account ?? address] };
    case "eth_chainId":
      if (wallet.next && !wallet.slow--) wallet.chain = wallet.next;
      return { result: wallet.chain };
    case "wallet_switchEthereumChain":
      if (!wallet.known.includes(params[0].chainId)) return error(wallet.unknown ?? 4902);
      if (wallet.slow) wallet.next = params[0].chainId;
      else if (!wallet.stuck) wallet.chain = params[0].chainId;
      return { result: null };
    case "wallet_addEthereumChain":
      wallet.added.push(params[0]);
      wallet.known.push(params[0].chainId);
      return { result: null };
    case "eth_call": {
      const response = await fetch(wallet.rpc, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
      });
      return { result: (await response.json()).result };
    }
    case "eth_signTypedData_v4":
      if (params[0] !== address) return error(4100);
      wallet.signed.push(JSON.parse(params[1]));
      // A wallet that is a contract has signatures of any length (EIP-1271).
      return { result: (await account.signTypedData(JSON.parse(params[1]))) + "00".repeat(wallet.longer) };
  }
  return error(-32601);
}

// scripted is a wallet with what happens to it.
function scripted(given) {
  const wallet = { longer: 0, ...given, calls: [], added: [], signed: [] };
  wallet.held = new Promise((holds) => (wallet.holds = holds));
  return wallet;
}

// announce runs in a page before its scripts: it has the wallets there, and keeps what the page does with them.
function announce(wallets) {
  const provider = (id) => ({
    request: async ({ method, params = [] }) => {
      const { result, error } = await window.askWallet(id, method, params);
      if (error) throw Object.assign(new Error(error.message), error);
      return result;
    },
  });
  const tell = ({ id, name, icon }) => {
    const detail = Object.freeze({ info: { uuid: `uuid-${id}`, name, icon, rdns: "org.example" }, provider: provider(id) });
    window.dispatchEvent(new CustomEvent("eip6963:announceProvider", { detail }));
  };
  window.appear = (wallet) => {
    if (!wallet.legacy) return tell(wallet);
    window.ethereum = provider(wallet.id);
    if (wallet.legacy === "initialized") window.dispatchEvent(new Event("ethereum#initialized"));
  };
  const there = wallets.filter((wallet) => !wallet.late);
  window.addEventListener("eip6963:requestProvider", () => there.filter((wallet) => !wallet.legacy).forEach(tell));
  there.filter((wallet) => wallet.legacy).forEach(window.appear);
}

// announcement is what a page is told of a wallet.
const announcement = ({ name, icon, legacy, late }, id) => ({ id, name, icon, legacy, late });

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
      return person.held();
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
const words = (text) => new RegExp(text.replace(/(?!\|)[\p{P}\p{S}]/gu, "\\$&").replaceAll(" ", "\\s[\u2068]?"));

const person = ({ who }) => people[who];
const tab = ({ who, tab }) => people[who].tabs[tab];

const commands = {
  // meet makes a person with wallets.
  async meet({ who, wallets = [], phone = false, width = 390, dark = false, language = "en", noLocks = false, noStorage = false }) {
    const viewport = { width, height: 800 }, colorScheme = dark ? "dark" : "light";
    const context = await browser.newContext({ viewport, colorScheme, isMobile: phone, hasTouch: phone, locale: language, ignoreHTTPSErrors: true });
    context.setDefaultTimeout(25_000);
    const p = { context, wallets: wallets.map(scripted), tabs: {}, weather: [], sent: [], messages: [], foreign: [] };
    p.holding = new Promise((held) => (p.held = held));
    await context.exposeFunction("askWallet", (id, method, params) => {
      const wallet = p.wallets[id], holds = wallet.hold === method, answered = answer(wallet, method, params);
      if (holds) wallet.answered = answered;
      return answered;
    });
    await context.addInitScript(announce, p.wallets.map(announcement));
    if (noLocks) await context.addInitScript(() => Object.defineProperty(navigator, "locks", { value: undefined }));
    if (noStorage) await context.addInitScript(() => (Storage.prototype.setItem = () => { throw new DOMException("full", "QuotaExceededError"); }));
    await context.route("**/v1/sponsor", (route) => intervene(p, route));
    context.on("request", (request) => {
      const header = request.headers()["payment-signature"];
      if (header) p.sent.push(header);
    });
    people[who] = p;
  },

  // open opens a page in a tab, with a clock that only the test moves.
  async open(given) {
    const page = await person(given).context.newPage();
    person(given).tabs[given.tab] = page;
    page.on("pageerror", (e) => person(given).messages.push(String(e)));
    page.on("console", (message) => {
      if (message.text().includes("Content Security Policy")) person(given).messages.push(message.text());
    });
    page.on("dialog", (dialog) => person(given).messages.push(dialog.message()));
    if (given.clock) {
      await stopClock({ context: page.context(), page }, Date.now());
      await page.addInitScript(() => {
        AbortSignal.timeout = (milliseconds) => {
          const aborts = new AbortController();
          setTimeout(() => aborts.abort(new DOMException("", "TimeoutError")), milliseconds);
          return aborts.signal;
        };
      });
    }
    await page.goto(given.url);
  },

  reload: (given) => tab(given).reload(),
  close: (given) => tab(given).close(),

  // appear lets a wallet come to a page after its scripts ran.
  appear: (given) => tab(given).evaluate((wallet) => window.appear(wallet), announcement(person(given).wallets[0], 0)),

  // press presses a button as people without a pointer do, or what unfolds a question.
  async press(given) {
    const found = tab(given).locator(".wallet :is(button:enabled, summary)").filter({ hasText: words(given.name) });
    await found.locator("visible=true").press("Enter");
  },

  // key presses a key where the focus is, and returns what has it then.
  async key(given) {
    await tab(given).keyboard.press(given.key);
    return tab(given).evaluate(() => document.activeElement.textContent);
  },

  // pass lets time pass in a tab.
  pass: (given) => tab(given).clock.runFor(given.milliseconds),

  // read waits until a text is shown and returns all of it.
  async read(given) {
    const page = tab(given);
    await page.locator(".wallet").filter({ hasText: words(given.text) }).first().waitFor({ state: "attached" });
    if (given.idle) await page.locator(".wallet:not(:has(button[disabled], > .actions[hidden]))").first().waitFor({ state: "attached" });
    const violations = given.audit ? await audit(page, ".wallet", { preload: false }) : [];
    return page.evaluate(async (violations) => {
      const place = document.querySelector(".wallet"), seen = (element) => element.checkVisibility();
      for (const icon of place.querySelectorAll("img")) await icon.decode();
      return {
        text: place.innerText,
        status: place.querySelector("[role=status]").innerText.replace(/\s+/g, " "),
        step: place.querySelector(".steps > [aria-current=step]")?.innerText ?? "",
        buttons: [...place.querySelectorAll("button, summary")].filter(seen).map((b) => b.textContent),
        icons: [...place.querySelectorAll("button img")].map((img) => img.naturalWidth),
        tabs: [...document.querySelectorAll("[role=tab]")].filter(seen).map((t) => t.textContent),
        links: [...place.querySelectorAll("a")].map((a) => a.href),
        focus: document.activeElement.textContent,
        html: place.innerHTML,
        violations,
      };
    }, violations);
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
    return { all: [...found].filter((name) => !/^button (This browser|Another wallet)$/.test(name)), most };
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

  // follow follows a link: the one to the receipt, or the one that a selector finds.
  async follow({ link = ".wallet a", ...given }) {
    const page = tab(given);
    await Promise.all([page.waitForNavigation(), page.locator(link).click()]);
    return commands.text(given);
  },

  // text is that of the page.
  text: async (given) => ({ url: tab(given).url(), text: await tab(given).locator("main").innerText() }),

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

  // held waits until the weather holds a request.
  held: (given) => person(given).holding,

  // holds waits until a wallet holds a question.
  async holds(given) {
    await person(given).wallets[0].held;
  },

  // answers lets a wallet answer what it holds, and returns when the page has the answer.
  async answers(given) {
    const wallet = person(given).wallets[0];
    wallet.hold = "";
    wallet.release();
    await wallet.answered;
  },

  // did is what happened.
  did: ({ who }) => {
    const { sent, wallets, messages } = people[who];
    return { sent, messages, wallets: wallets.map(({ calls, added, signed }) => ({ calls, added, signed: signed.map((data) => data.message.nonce) })) };
  },

  async leave({ who }) {
    await people[who].context.close();
    delete people[who];
  },
};

await serve(commands);
await browser.close();
