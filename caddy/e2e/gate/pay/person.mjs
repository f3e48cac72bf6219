// People who pay for a page and come back, by the commands of ../../browser/drive.mjs. Each has a browser with a profile
// that stays on disk. Chromium resolves the names below localhost by itself; it accepts the certificates of the test.
import { audit, chromium, options, serve } from "../../browser/drive.mjs";

const people = {};

// see is what the page of a person shows.
async function see({ page, status }) {
  return { url: page.url(), status, text: await page.locator("body").innerText(), buttons: await page.locator("a.button:visible, button:visible").allInnerTexts() };
}

const commands = {
  // come starts the browser of a person.
  async come({ who }) {
    const context = await chromium.launchPersistentContext(`${process.env.HOME}/${who}`, {
      ...options, ignoreHTTPSErrors: true, locale: "en", viewport: { width: 390, height: 800 },
    });
    context.setDefaultTimeout(60_000);
    const person = (people[who] = { context, page: context.pages()[0] });
    person.page.on("response", (response) => {
      if (response.request().isNavigationRequest()) person.status = response.status();
    });
  },

  // forget leaves a browser as that of somebody who was never there.
  forget: ({ who }) => people[who].context.clearCookies(),

  async go({ who, url }) {
    await people[who].page.goto(url);
    return see(people[who]);
  },

  // back is the Back key.
  async back({ who }) {
    await people[who].page.goBack();
    return see(people[who]);
  },

  show: ({ who }) => see(people[who]),

  // press presses a link or a button that leads to another page: by a selector, or by its text.
  async press({ who, what }) {
    const { page } = people[who];
    const target = what.includes(".") ? page.locator(what) : page.locator(`:is(a, button):text-is(${JSON.stringify(what)})`);
    await Promise.all([page.waitForNavigation(), target.click()]);
    return see(people[who]);
  },

  // look returns what axe-core finds wrong in the page, narrow and light, and wide and dark. Pictures are taken of all looks, where
  // pictures are wanted.
  async look({ who, picture }) {
    const { page } = people[who], violations = [];
    for (const width of [390, 1280]) {
      for (const colorScheme of ["light", "dark"]) {
        await page.setViewportSize({ width, height: 800 });
        await page.emulateMedia({ colorScheme });
        if ((width === 390) === (colorScheme === "light")) violations.push(...(await audit(page)));
        if (picture) await page.screenshot({ path: picture.replace(".png", `-${width}-${colorScheme}.png`), fullPage: true });
      }
    }
    await page.setViewportSize({ width: 390, height: 800 });
    await page.emulateMedia({ colorScheme: "light" });
    return violations;
  },

  async leave({ who }) {
    await people[who].context.close();
    delete people[who];
  },
};

await serve(commands);
await Promise.all(Object.values(people).map(({ context }) => context.close()));
