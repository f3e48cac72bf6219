// Buys in the demo as a person does, by the commands of drive.mjs.
import { audit, launch, serve } from "../browser/drive.mjs";

const browser = await launch();
// audited are the pages that axe-core has looked at: each way to buy begins at a page of its own.
const audited = new Set();

// buy goes from the page named url to the receipt, by the checkout link that a selector finds, after a declined card. It
// returns the text of every page on the way, what axe-core finds wrong in them, what their consoles said, and which origins
// were asked.
async function buy({ url, link, pictures }) {
  const context = await browser.newContext({ viewport: { width: 390, height: 800 } });
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const found = { pages: [], violations: [], messages: [], origins: [] };
  page.on("console", (message) => ["warning", "error"].includes(message.type()) && found.messages.push(message.text()));
  page.on("pageerror", (error) => found.messages.push(String(error)));
  page.on("request", (request) => {
    const { origin } = new URL(request.url());
    if (!found.origins.includes(origin)) found.origins.push(origin);
  });
  const look = async (name) => {
    found.pages.push({ url: page.url(), text: await page.locator("body").innerText() });
    if (pictures) await page.screenshot({ path: `${pictures}/demo-${name}.png`, fullPage: true });
    if (name !== "offer" && audited.has(name)) return;
    audited.add(name);
    found.violations.push(...(await audit(page)));
  };
  await page.goto(url);
  await look("offer");
  await page.locator(link).click();
  const press = (name) => page.getByRole("button", { name }).click();
  await page.getByRole("button", { name: "Pay $42" }).waitFor();
  await look("checkout");
  await press("declined");
  await page.getByRole("alert").waitFor();
  await look("declined");
  await press("Pay $42");
  await page.locator("#live h1").waitFor();
  await look("thanks");
  await page.locator("#live a.button.plain").click();
  await page.locator("article").waitFor();
  await look("receipt");
  await context.close();
  return found;
}

await serve({ buy });
await browser.close();
