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
  // What is found of an element is kept: many texts have the same around them.
  const once = (find, found = new Map()) => (element) => {
    if (!found.has(element)) found.set(element, find(element));
    return found.get(element);
  };
  const ground = once((element) => {
    if (!element) return { r: 255, g: 255, b: 255, a: 1 };
    const own = rgba(getComputedStyle(element).backgroundColor);
    return own.a === 1 ? own : over(own, ground(element.parentElement));
  });
  const luminance = ({ r, g, b }) => {
    const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const contrast = once((element) => {
    const under = ground(element);
    const [dark, light] = [luminance(over(rgba(getComputedStyle(element).color), under)), luminance(under)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  });
  // clips are the boxes of what cuts an element.
  const clips = once((element) => {
    if (!element || element === document.body) return [];
    const around = clips(element.parentElement);
    return getComputedStyle(element).overflow === "visible" ? around : [element.getBoundingClientRect(), ...around];
  });

  const visible = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const faint = [], cut = [], broken = [], lines = [];
  // A word that has room in the window is not broken, unless it is a number or an address to compare.
  const room = Math.min(innerWidth, 520) - 100;
  const findBroken = (node, element) => {
    if (element.closest(".hash, code, [data-tail], dd[data-copy]")) return;
    const range = document.createRange();
    const rectsOf = (word, at) => {
      range.setStart(node, at);
      range.setEnd(node, at + word.length);
      return [...range.getClientRects()].filter(({ width }) => width > 0);
    };
    for (const { 0: whole, index } of node.data.matchAll(/[^\s\u00a0\u202f]+/g)) {
      if (rectsOf(whole, index).reduce((sum, { width }) => sum + width, 0) > room) continue;
      for (const { 0: word, index: at } of whole.matchAll(/[^/–—-]+[/–—-]*/g)) {
        const rects = rectsOf(word, index + at);
        if (rects.some(({ top }) => top > rects[0].bottom - 2)) broken.push(word);
      }
    }
  };
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
    findBroken(walker.currentNode, element);
    if (element.dataset.tail) continue; // cut in the middle; its end is beside it
    for (const { left, right, top, bottom } of range.getClientRects()) {
      lines.push({ element, left, right, top, bottom, text });
      const cuts = (box) => left < box.left - 1 || right > box.right + 1 || top < box.top - 1 || bottom > box.bottom + 1;
      if (left < -1 || right > innerWidth + 1 || clips(element).some(cuts)) cut.push(text.slice(0, 60));
    }
  }
  // Lines of text that stand on others. A line is higher than its letters.
  lines.sort((one, other) => one.top - other.top);
  for (const [i, one] of lines.entries()) {
    for (let j = i + 1; j < lines.length && one.bottom - lines[j].top > 6; j++) {
      const other = lines[j], wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      if (one.element !== other.element && wide > 2 && other.bottom - other.top > 6) cut.push(`${one.text.slice(0, 30)} | ${other.text.slice(0, 30)}`);
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
    broken,
    links: [...document.links].filter(visible).map((link) => ({ url: link.href, text: link.innerText.trim(), usable: reachable(link) })),
    overflow: Math.max(0, document.documentElement.scrollWidth - innerWidth),
    tallestRow: Math.max(0, ...[...document.querySelectorAll("[data-number]")].map((row) => row.offsetHeight)),
    // What a picture shows is said by its text, or by what stands beside it.
    images: [...document.images].filter(visible).map((image) => ({
      alt: image.alt || image.parentElement.innerText,
      loaded: image.complete && image.naturalWidth > 0,
      beside: image.closest(".way, section, header, main").innerText,
    })),
    buttons: [...document.querySelectorAll("button:not(form > *)")].filter(visible).map((button) => button.innerText),
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
    .filter((element) => [null, "::before", "::after"].some((part) => {
      const { animationName, transitionDuration, scrollBehavior } = getComputedStyle(element, part);
      return animationName !== "none" || seconds(transitionDuration) > 0 || scrollBehavior === "smooth";
    }))
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

// focusSummary has the focus the summary of a row of the chooser, or of the question for its code, which is closed. It returns
// whether there is one.
export function focusSummary([i, code]) {
  const row = document.querySelectorAll(".way")[i];
  const closed = (code ? row.querySelectorAll("details.qr") : [row]);
  for (const details of closed) if (!details.open) details.querySelector("summary").focus();
  return [...closed].some((details) => !details.open);
}

// showCode has the code of a row loaded, if it has one.
export async function showCode(i) {
  for (const image of document.querySelectorAll(".way")[i].querySelectorAll(".qr img")) {
    image.scrollIntoView();
    await image.decode();
  }
}

// loadedCodes are the rails whose codes this page has loaded.
export const loadedCodes = () => performance.getEntriesByType("resource").flatMap(({ name }) => /\/v1\/qr\/([^/]*)\//.exec(name)?.[1] ?? []);

// describeRow tells what a row of the chooser shows, and the page around it.
export function describeRow(i) {
  const row = document.querySelectorAll(".way")[i];
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
