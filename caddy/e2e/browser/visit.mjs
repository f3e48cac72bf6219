// Visits a page once for all that must hold of every page.
import { audit } from "./drive.mjs";
import * as inPage from "./in_page.mjs";
import { dress } from "./lanes.mjs";

const narrow = 390, wide = 1280;
const schemes = [false, true];

// pictured are the pages of which pictures are kept wide and narrow, in light and dark colors.
const pictured =
  /^(offer|demo|error-wallet-down|showcase-(pay-(card|usdc|lightning|transfer)|invoice-.*|received|thanks-received|receipt-(card-.*-USD|lightning-.*)))$/;

export async function visit(lane, given) {
  const found = { looks: [], zoomed: [], plain: [], messages: [], foreign: [], loads: 0 };
  const load = async (view) => {
    const used = await lane.open({ ...given, noScript: false, ...view });
    found.loads++;
    used.loaded = 0; // the width in which its images were loaded
    return used;
  };
  const show = async (used, view) => {
    await dress(used, view);
    const { width, dark = false, forced = false, noScript } = view;
    if (used.loaded !== width) await used.page.evaluate(inPage.loadImages);
    used.loaded = width;
    if (given.pictures && !noScript && (pictured.test(given.name) ? width === wide || width === narrow : width === narrow && !dark)) {
      const colors = forced ? "forced" : dark ? "dark" : "light";
      await used.page.screenshot({ path: `${given.pictures}/${given.name}-${width}-${colors}.png`, fullPage: true });
    }
  };
  const look = async (used, view) => {
    await show(used, view);
    return { width: view.width, dark: Boolean(view.dark), violations: [], ...(await used.page.evaluate(inPage.describe)) };
  };
  const leave = ({ seen }) => {
    found.messages.push(...seen.messages);
    found.foreign.push(...seen.foreign);
  };

  // A page that was loaded wide is not one that was loaded narrow.
  for (const width of given.widths) {
    const used = await load({ width });
    for (const dark of schemes) {
      const seen = await look(used, { width, dark });
      if (dark === (width === wide) && given.audit) seen.violations = await audit(used.page, "html", given.widths.length > 1 ? await rules(used.page, dark) : {});
      found.looks.push(seen);
    }
    if (width === wide) {
      found.keyboard = await keyboard(used.page);
      // 200 % and 400 % of a wide window (WCAG 2.2, criteria 1.4.4 and 1.4.10).
      for (const zoomed of [wide / 2, wide / 4]) found.zoomed.push(await look(used, { width: zoomed }));
      await dress(used, { width, reducedMotion: true });
      found.moving = await used.page.evaluate(inPage.moving);
      await show(used, { width, forced: true });
      found.hidden = await used.page.evaluate(inPage.hiddenInForcedColors);
    }
    leave(used);
  }
  if (given.noScript) {
    const plain = await load({ noScript: true });
    const colors = (width) => (given.widths.length > 1 ? schemes : [width === wide]);
    for (const width of given.widths) for (const dark of colors(width)) found.plain.push(await look(plain, { width, dark, noScript: true }));
    leave(plain);
  }
  return found;
}

// visible are the rules that follow from how a page looks, and not from what is on it.
const visible = { type: "rule", values: ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "target-size"] };

// rules are those of the second audit, in dark colors and wide: where the same is open as in the first, which had all, those
// that follow from the looks.
async function rules(page, second) {
  if (!second) return {};
  return (await page.locator("details.qr[open]").count()) ? { preload: false } : { runOnly: visible }; // to preload is for how a phone is held
}

// keyboard goes through the page by the key Tab, as often as there is something to reach and once more.
async function keyboard(page) {
  await page.evaluate(inPage.watchFocus);
  await page.keyboard.press("Tab"); // which may change what there is
  const { controls } = await page.evaluate(inPage.reached);
  for (let i = 0; i < controls + 1; i++) await page.keyboard.press("Tab");
  return page.evaluate(inPage.reached);
}
