// Lanes are pages that are used again, for to make one takes longer than to look at it. In each there is one with JavaScript
// and one without.
export const lanes = (browser, count) => Array.from({ length: count }, () => new Map()).map((pages) => ({ open: (view) => open(browser, pages, view) }));

// each does something with all of a list, as many at a time as there are lanes.
export async function each(lanes, list, work) {
  const results = [], left = list.entries();
  await Promise.all(lanes.map(async (lane) => {
    for (const [i, one] of left) results[i] = await work(lane, one);
  }));
  return results;
}

// make makes a page and notes what it says and asks for. Requests to other origins go nowhere: a document is answered with a
// line of text, anything else fails.
export async function make(browser, { noScript = false }) {
  const context = await browser.newContext({ javaScriptEnabled: !noScript, permissions: ["clipboard-read", "clipboard-write"] });
  // Nothing here is late because it is slow: the tests have a limit of their own.
  context.setDefaultTimeout(300_000);
  const page = await context.newPage();
  const seen = { messages: [], foreign: [] };
  page.on("console", (message) => {
    if (["warning", "error"].includes(message.type())) seen.messages.push(message.text());
  });
  page.on("pageerror", (error) => seen.messages.push(String(error)));
  const used = { context, page, seen, view: { url: "about:blank" } };
  page.on("request", (request) => {
    if (used.opens && request.isNavigationRequest()) {
      used.opens = false; // what was before is not of this page
      Object.assign(seen, { messages: [], foreign: [] });
    }
  });
  await context.route(
    (target) => target.protocol.startsWith("http") && target.origin !== new URL(used.view.url).origin,
    (route) => {
      seen.foreign.push(route.request().url());
      return route.request().isNavigationRequest() ? route.fulfill({ contentType: "text/html", body: "the checkout" }) : route.abort();
    },
  );
  // The page itself may be asked for by another method, as by a form.
  await context.route(
    (target) => used.view.method && target.href === used.view.url,
    (route, request) => route.continue({ method: used.view.method, headers: { ...request.headers(), ...used.view.headers }, postData: used.view.body }),
  );
  return used;
}

// dress has a page look as a person wants it.
export async function dress(used, { width = 1280, dark = false, forced = false, print = false, reducedMotion = false }) {
  const { page } = used, before = page.viewportSize();
  if (before.width !== width || before.height !== 800) await page.setViewportSize({ width, height: 800 });
  const media = {
    colorScheme: dark ? "dark" : "light", forcedColors: forced ? "active" : "none", media: print ? "print" : "screen",
    reducedMotion: reducedMotion ? "reduce" : "no-preference",
  };
  if (JSON.stringify(media) === used.media) return;
  used.media = JSON.stringify(media);
  await page.emulateMedia(media);
}

// stopClock lets nothing on the page happen by time alone, but keeps the real timer aside. An installed clock goes on until it
// is paused, at a time to come.
export async function stopClock({ context, page }, at = 3_600_000) {
  await context.addInitScript(() => {
    window.realTimer = setTimeout.bind(window);
    window.realEntries = performance.getEntriesByType.bind(performance);
  });
  await page.clock.install({ time: at - 3_600_000 });
  await page.clock.pauseAt(at);
  await context.addInitScript(() => (performance.getEntriesByType = window.realEntries)); // a stopped clock knows of no way back
}

// open opens a page in a lane, whose page before is gone.
async function open(browser, pages, view) {
  const kind = Boolean(view.noScript);
  if (!pages.has(kind)) {
    const made = await make(browser, view);
    await stopClock(made);
    // Each is the visit of a person who has not paid before. An empty page has no storage.
    await made.context.addInitScript(() => location.protocol.startsWith("http") && [localStorage, sessionStorage].forEach((storage) => storage.clear()));
    pages.set(kind, made);
  }
  const used = pages.get(kind);
  // Another place of the page that is shown would not load it. Else an empty page between two takes as long as one of them.
  const [before, now] = [used.page.url(), view.url].map((url) => url.split("#")[0]);
  if (before === now) await used.page.goto("about:blank");
  await dress(used, view);
  Object.assign(used, { view, opens: true });
  await used.page.goto(view.url);
  return used;
}
