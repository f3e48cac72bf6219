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
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    if (color.startsWith("rgb")) {
      const [r, g, b, a = 1] = color.match(/[\d.]+/g).map(Number);
      return { r, g, b, a };
    }
    canvas.clearRect(0, 0, 1, 1); // a mixed color is not written in rgb()
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return { r, g, b, a: a / 255 };
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
  const faint = [], cut = [], lines = [];
  let texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim();
    if (!text || !visible(element)) continue;
    texts++;
    const ratio = contrast(element);
    if (ratio < 4.5) faint.push(`${ratio.toFixed(2)}: ${text.slice(0, 60)}`);
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    for (const box of range.getClientRects()) {
      if (element.dataset.tail) continue; // cut in the middle; its end is beside it
      lines.push({ element, box, text });
      for (let around = element; around && around !== document.body; around = around.parentElement) {
        if (getComputedStyle(around).overflow === "visible") continue;
        const { left, right, top, bottom } = around.getBoundingClientRect();
        if (box.left < left - 1 || box.right > right + 1 || box.top < top - 1 || box.bottom > bottom + 1) cut.push(text.slice(0, 60));
      }
      if (box.left < -1 || box.right > innerWidth + 1) cut.push(text.slice(0, 60));
    }
  }
  // Lines of text that stand on others. A line is higher than its letters.
  for (const [i, one] of lines.entries()) {
    for (const other of lines.slice(i + 1)) {
      const wide = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
      const high = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
      if (one.element !== other.element && wide > 2 && high > 6) cut.push(`${one.text.slice(0, 30)} | ${other.text.slice(0, 30)}`);
    }
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
    cut,
    links: [...document.links].filter(visible).map((link) => ({ url: link.href, text: link.innerText.trim(), usable: reachable(link) })),
    overflow: Math.max(0, document.documentElement.scrollWidth - innerWidth),
    tallestRow: Math.max(0, ...[...document.querySelectorAll("[data-number]")].map((row) => row.offsetHeight)),
    // What a picture shows is said by its text, or by what stands beside it.
    images: [...document.images].filter(visible).map((image) => ({
      alt: image.alt || image.parentElement.innerText,
      loaded: image.complete && image.naturalWidth > 0,
      beside: image.closest(".way, section, header, main").innerText,
    })),
    buttons: [...document.querySelectorAll("button")].filter(visible).map((button) => button.innerText),
    text: document.body.innerText,
  };
}

// watchFocus notes what gets the focus, and whether that is seen.
export function watchFocus() {
  window.focused = new Map();
  addEventListener("focusin", ({ target }) => {
    const { outlineStyle, outlineWidth } = getComputedStyle(target);
    window.focused.set(target, outlineStyle !== "none" && parseFloat(outlineWidth) >= 2);
  });
}

// reached tells what of all that people act on got the focus.
export function reached() {
  const name = (element) => `${element.localName} ${element.getAttribute("aria-label") ?? element.innerText}`;
  const controls = [...document.querySelectorAll("a[href], button:enabled, input, select, textarea, summary, [tabindex='0']")].filter(
    (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true }),
  );
  return {
    controls: controls.length,
    unreached: controls.filter((element) => !window.focused.has(element)).map(name),
    unseen: [...window.focused].filter(([, seen]) => !seen).map(([element]) => name(element)),
  };
}

// moving are the elements that move by themselves or when something changes.
export function moving() {
  const seconds = (times) => Math.max(...times.split(", ").map(parseFloat));
  return [...document.querySelectorAll("body *")]
    .filter((element) => element.checkVisibility())
    .filter((element) => {
      const { animationName, transitionDuration, scrollBehavior } = getComputedStyle(element);
      return animationName !== "none" || seconds(transitionDuration) > 0 || scrollBehavior === "smooth";
    })
    .map((element) => element.outerHTML.slice(0, 80));
}

// hiddenInForcedColors are the elements that only a background shows, which forced colors take away: bars of progress, and buttons
// and chosen tabs without a border.
export function hiddenInForcedColors() {
  const bordered = (element) => ["Top", "Bottom"].some((side) => parseFloat(getComputedStyle(element)[`border${side}Width`]) > 0);
  return [...document.querySelectorAll("progress, .button, [aria-selected=true], .stamp")]
    .filter((element) => element.checkVisibility())
    .filter((element) => (element.matches("progress") ? getComputedStyle(element).forcedColorAdjust !== "none" : !bordered(element)))
    .map((element) => element.outerHTML.slice(0, 80));
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
