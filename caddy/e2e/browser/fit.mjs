// Looks at one page in several widths and fonts.
import * as inPage from "./in_page.mjs";
import { dress } from "./lanes.mjs";

export async function fit(lane, { fonts, widths, ...view }) {
  const used = await lane.open({ ...view, width: widths[0] });
  const looks = [];
  for (const width of widths) {
    await dress(used, { width });
    for (const font of fonts) {
      await used.page.evaluate((font) => document.documentElement.style.setProperty("--font", font), font);
      const { texts, cut, broken, overflow } = await used.page.evaluate(inPage.describe);
      looks.push({ width, font, texts, cut, broken, overflow });
    }
  }
  return looks;
}

// measure returns the size and the look of the first element of each selector.
export async function measure(lane, { selectors, ...view }) {
  const { page, seen } = await lane.open(view);
  await page.evaluate(inPage.loadImages);
  const looks = await page.evaluate(
    (selectors) =>
      selectors.map((selector) => {
        const element = document.querySelector(selector), { width, height } = element.getBoundingClientRect();
        const { backgroundColor, fontFamily, borderTopLeftRadius } = getComputedStyle(element);
        return { width, height, natural: element.naturalWidth / element.naturalHeight, background: backgroundColor, font: fontFamily, radius: borderTopLeftRadius };
      }),
    selectors,
  );
  return { looks, messages: seen.messages, foreign: seen.foreign };
}
