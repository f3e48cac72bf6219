"use strict";
// Opens the checkout after a visible countdown, which whatever a person does on the
// page ends for good, by hand, by keyboard or by leaving; coming back from the
// checkout does not begin it again. A screen reader is no event. So it is told
// twice that and when the page is left, no later than 20 seconds before (WCAG 2.2,
// 2.2.1: the time in which one simple action keeps a person here); and for who asks
// for less motion, more contrast or other colors, nothing moves by itself.
(() => {
	const total = 20;
	const calm = ["(prefers-reduced-motion: reduce)", "(prefers-contrast: more)", "(forced-colors: active)"];
	const events = ["pointermove", "pointerdown", "touchstart", "wheel", "scroll", "keydown", "focusin", "selectionchange", "resize", "blur", "visibilitychange", "pagehide"];
	const find = (id) => document.getElementById(id);
	const say = JSON.parse(find("texts").textContent);
	const status = find("status");
	let left = total;
	let timer;

	function show() {
		if (left === total || left === total / 2) status.textContent = say.soon.replace("{n}", left);
		find("countdown").textContent = (left === 1 ? say["left.one"] : say.left).replace("{n}", left);
		find("bar").firstElementChild.style.transform = "scaleX(" + left / total + ")";
	}
	function end(text) {
		clearInterval(timer);
		for (const name of events) removeEventListener(name, stop, true);
		// What is below stays where it is, for a finger may be on it.
		for (const id of ["stay", "countdown", "bar"]) find(id).style.visibility = "hidden";
		status.style.minHeight = status.offsetHeight + "px";
		addEventListener("resize", () => (status.style.minHeight = ""), { once: true }); // it was the height in that width
		status.textContent = text;
	}
	function stop() {
		end(say.stopped);
	}
	function tick() {
		left--;
		show();
		if (left > 0) return;
		if (!document.hasFocus()) return stop();
		end(say.opening);
		location.assign(find("checkout").href);
	}

	const [entry] = performance.getEntriesByType("navigation");
	if (document.hidden || document.activeElement !== document.body || entry?.type === "back_forward") return;
	if (calm.some((query) => matchMedia(query).matches)) return;
	for (const id of ["stay", "countdown", "bar"]) find(id).hidden = false;
	find("stay").addEventListener("click", stop);
	for (const name of events) addEventListener(name, stop, { capture: true, passive: true });
	show();
	timer = setInterval(tick, 1000);
	addEventListener("pageshow", (event) => event.persisted && stop());
})();
