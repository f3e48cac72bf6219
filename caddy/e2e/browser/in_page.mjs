// What runs inside of a page. Each function stands alone, for its text is sent to the page.

// loadImages has every visible image loaded, some of which wait until they are near the window.
export async function loadImages() {
  for (const image of document.images) {
    if (!image.checkVisibility()) continue;
    image.scrollIntoView({ block: "nearest", behavior: "instant" });
    await image.decode();
  }
}

// describe tells what the page shows. Contrast is that of WCAG 2.2, by the computed colors.
export function describe() {
  const rgba = (color) => {
    const [r, g, b, a = 1] = color.match(/[\d.]+/g).map(Number);
    return { r, g, b, a };
  };
  const over = (top, under) => {
    const mix = (channel) => top[channel] * top.a + under[channel] * (1 - top.a);
    return { r: mix("r"), g: mix("g"), b: mix("b"), a: 1 };
  };
  const ground = (element) => {
    if (!element) return { r: 255, g: 255, b: 255, a: 1 };
    const own = rgba(getComputedStyle(element).backgroundColor);
    return own.a === 1 ? own : over(own, ground(element.parentElement));
  };
  const luminance = ({ r, g, b }) => {
    const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const contrast = (element) => {
    const under = ground(element);
    const [dark, light] = [luminance(over(rgba(getComputedStyle(element).color), under)), luminance(under)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };

  const visible = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const faint = [];
  let texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim();
    if (!text || !visible(element)) continue;
    texts++;
    const ratio = contrast(element);
    if (ratio < 4.5) faint.push(`${ratio.toFixed(2)}: ${text.slice(0, 60)}`);
  }
  // A click reaches a link when nothing covers it.
  const reachable = (link) => {
    link.scrollIntoView({ block: "center", behavior: "instant" });
    const { left, top, width, height } = link.getClientRects()[0] ?? { width: 0 };
    return width > 0 && link.contains(document.elementFromPoint(left + width / 2, top + height / 2));
  };
  return {
    texts,
    faint,
    links: [...document.links].filter(visible).map((link) => ({ url: link.href, text: link.innerText.trim(), usable: reachable(link) })),
    overflow: Math.max(0, document.documentElement.scrollWidth - innerWidth),
    tallestRow: Math.max(0, ...[...document.querySelectorAll("[data-number]")].map((row) => row.offsetHeight)),
    // What a picture shows is said by its text, or by what stands beside it.
    images: [...document.images].filter(visible).map((image) => ({
      alt: image.alt || image.parentElement.innerText,
      loaded: image.complete && image.naturalWidth > 0,
      beside: image.closest(".way, section, header").innerText,
    })),
    buttons: [...document.querySelectorAll("button")].filter(visible).map((button) => button.innerText),
    text: document.body.innerText,
  };
}

// describeRow tells what a row of the chooser shows, and the page around it.
export function describeRow(row) {
  const visible = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const targets = [...document.querySelectorAll("summary, button, .button, nav a")].filter(visible);
  return {
    rail: row.querySelector(".rail").id,
    open: [...document.querySelectorAll(".way[open] > .rail")].map((rail) => rail.id),
    text: row.innerText,
    links: [...row.querySelectorAll("a")].filter(visible).map((link) => link.href),
    height: document.documentElement.scrollHeight,
    overflow: Math.max(0, document.documentElement.scrollWidth - innerWidth),
    low: targets.filter((target) => target.getBoundingClientRect().height < 44).map((target) => target.innerText),
  };
}
