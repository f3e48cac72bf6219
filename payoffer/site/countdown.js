"use strict";
// Opens the checkout after a visible countdown. Any event of a person ends it for good, and
// coming back from the checkout does not start it again. A screen reader causes no event, so
// it is told twice when the page leaves, 20 seconds before at the latest (WCAG 2.2, 2.2.1).
// With reduced motion, more contrast or forced colors there is no countdown.
(() => {
	const total = 20;
	const calm = ["(prefers-reduced-motion: reduce)", "(prefers-contrast: more)", "(forced-colors: active)"];
	const events = [
		"pointermove", "pointerdown", "touchstart", "wheel", "scroll", "keydown", "focusin",
		"selectionchange", "resize", "blur", "visibilitychange", "pagehide",
	];
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
		// What is below moves up only when a finger that stopped the countdown has left it.
		const wait = find("wait");
		wait.style.visibility = "hidden";
		status.style.minHeight = status.offsetHeight + "px";
		status.textContent = text;
		setTimeout(() => {
			wait.hidden = true;
			status.style.minHeight = "";
		}, 700);
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
	find("wait").hidden = false;
	find("stay").addEventListener("click", stop);
	for (const name of events) addEventListener(name, stop, { capture: true, passive: true });
	show();
	timer = setInterval(tick, 1000);
	addEventListener("pageshow", (event) => event.persisted && stop());
})();
