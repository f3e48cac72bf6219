"use strict";
// Opens the checkout after a visible countdown, which any event of a person ends for good. A browser that
// has just paid, which a cookie shows, gets a question. A screen reader causes no event, so it says the
// remaining time twice, first 20 seconds before the page leaves (WCAG 2.2, 2.2.1).
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
		const said = (left === 1 ? say["left.one"] : say.left).replace("{n}", left);
		const count = find("countdown");
		count.ariaLive = left === total || left === total / 2 ? "polite" : "off";
		count.textContent = said;
		find("bar").value = left / total;
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
	function stop(event) {
		// A browser sends one without a movement when the page loads below the pointer.
		if (event?.type === "pointermove" && !event.movementX && !event.movementY) return;
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

	function ask(paid) {
		find("paid").hidden = !paid;
		find("pay").hidden = paid;
		return paid;
	}
	const paid = () => ask(document.cookie.includes("pay_offer_paid="));
	find("again").addEventListener("click", () => {
		ask(false);
		find("checkout").focus();
	});
	addEventListener("pageshow", (event) => event.persisted && !paid() && timer && stop());

	const [entry] = performance.getEntriesByType("navigation");
	if (paid()) return;
	if (document.hidden || document.activeElement !== document.body || entry?.type === "back_forward") return;
	if (calm.some((query) => matchMedia(query).matches)) return;
	find("wait").hidden = false;
	find("stay").addEventListener("click", stop);
	for (const name of events) addEventListener(name, stop, { capture: true, passive: true });
	status.textContent = say.soon;
	show();
	timer = setInterval(tick, 1000);
})();
