// What people do on the page that takes a payment.
import * as inPage from "./in_page.mjs";

export function payCommands(lane, many, open, stopClock) {
  // rows opens each row by the keyboard, one after the other, and its code where that is asked for.
  async function rows(lane, view) {
    const { page } = await lane.open(view);
    const codes = () => page.evaluate(inPage.loadedCodes);
    const found = [];
    const count = await page.evaluate(() => document.querySelectorAll(".way").length);
    const unfold = async (i, code) => (await page.evaluate(inPage.focusSummary, [i, code])) && (await page.keyboard.press("Enter"));
    for (let i = 0; i < count; i++) {
      await unfold(i, false);
      const described = { ...(await page.evaluate(inPage.describeRow, i)), before: await codes() };
      await unfold(i, true);
      await page.evaluate(inPage.showCode, i);
      found.push({ ...described, after: await codes() });
    }
    return found;
  }

  // choose presses keys one after the other, the focus being on the open row, and returns what is chosen after each.
  async function choose({ keys, ...view }) {
    const { page } = await lane.open(view);
    await page.locator(".way[open] > summary").focus();
    const chosen = [];
    for (const key of keys) {
      if (key === "click") await page.locator(".way[open] > summary").click();
      else await page.keyboard.press(key);
      chosen.push(await page.evaluate(() => ({
        open: [...document.querySelectorAll(".way[open] > .rail")].map((rail) => rail.id),
        focused: document.activeElement.parentElement.querySelector(".rail")?.id ?? "",
      })));
    }
    await page.waitForFunction(() => document.querySelector("summary[aria-current=true]")?.parentElement.open);
    const current = await page.locator("summary[aria-current]").evaluateAll((all) => all.map((summary) => summary.nextElementSibling.id));
    return { chosen, current };
  }

  // copy presses each copy button and tells what the clipboard then holds, by the button's name.
  async function copy(view) {
    const { page } = await lane.open(view); // a button says for as long as it is looked at that it copied
    const copied = [];
    for (const value of await page.locator("dd[data-copy]").all()) {
      await value.evaluate((v) => {
        for (let around = v; around; around = around.parentElement) if (around.localName === "details") around.open = true;
      });
      const button = value.getByRole("button");
      const name = await button.getAttribute("aria-label");
      await page.evaluate(() => navigator.clipboard.writeText("nothing"));
      await button.press("Enter"); // as people without a pointer do
      await value.getByText("Copied", { exact: true }).waitFor();
      const announced = await page.locator(".unseen[role=status]").allTextContents();
      copied.push({ name, announced, called: await button.getAttribute("aria-label"), holds: await page.evaluate(() => navigator.clipboard.readText()) });
    }
    return copied;
  }

  // renew looks at a price that follows a rate, has it changed, and lets minutes pass, of which the page's clock knows, until
  // the page shows a text.
  async function renew({ url, at, change, minutes, shows, presses }) {
    const { context, page, seen } = await open({ url });
    await context.unrouteAll(); // a browser whose requests are looked at has no cache
    await page.clock.install({ time: at - 3_600_000 });
    await page.clock.pauseAt(at);
    await page.goto(url);
    const row = page.locator(".way[open]");
    const describe = async () => ({
      line: await row.locator("[data-quote]").innerText(),
      values: await row.locator("[data-copy]").evaluateAll((all) => all.map((value) => [value.firstElementChild.innerText, value.dataset.copy])),
      link: await row.locator(".actions > .button").getAttribute("href"),
      // A person without a pointer goes through the row; what is inert gets no focus.
      reached: await row.evaluate((row) => [...row.querySelectorAll("button, .button")].filter((control) => control.checkVisibility() && !control.closest("[inert]")).map((control) => control.textContent)),
      announced: await page.locator(".unseen[role=status]").innerText(),
      code: await row.locator(".qr img").evaluate((image) => image.decode().then(() => fetch(image.src)).then((answer) => answer.url)),
    });
    await row.getByText("45 min").waitFor();
    const before = await describe();
    await fetch(change, { method: "POST" });
    await page.clock.fastForward((minutes - 1) * 60_000); // what the page does again and again it does once
    await page.clock.runFor(60_000);
    await row.getByText(shows).waitFor();
    const after = await describe();
    let renewed = after;
    for (const [i, says] of presses.entries()) {
      if (i > 0) await fetch(change, { method: "POST" });
      await row.getByRole("button", { name: "Get a new price" }).click();
      await row.getByText(says).waitFor();
      renewed = await describe();
    }
    await context.close();
    return { before, after, renewed, messages: seen.messages };
  }

  return { rows: many(rows), choose, copy, renew };
}
