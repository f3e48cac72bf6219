"use strict";
// Shows how long a price with an exchange rate is valid and reads it again before it expires:
// only while its row is open, and at most once a minute. An expired price cannot be paid.
for (const line of document.querySelectorAll("[data-quote]")) {
	const say = JSON.parse(document.getElementById("texts").textContent).quote;
	const row = line.closest("details"), open = row.querySelector(".actions > .button");
	const terms = row.querySelectorAll(".by-hand > :is(.facts, .actions, .qr)");
	const renew = document.createElement("button");
	Object.assign(renew, { type: "button", className: "button", textContent: say.renew, hidden: true });
	line.after(renew);
	const minute = 60_000, clock = new Intl.DateTimeFormat(document.documentElement.lang, { timeStyle: "short" });
	let until = Date.parse(line.dataset.until), ahead, timer;
	// ahead is by how many milliseconds the server's clock is ahead of this one.
	const left = () => until - Date.now() - (ahead ?? 0);
	const put = (fact, bare, unit) => {
		const value = row.querySelector(`[data-fact=${fact}]`);
		value.dataset.copy = bare;
		value.firstElementChild.textContent = unit ? Number(bare).toLocaleString(document.documentElement.lang, { maximumFractionDigits: 8 }) + unit : bare;
		if (value.firstElementChild.dataset.tail) value.firstElementChild.dataset.tail = bare.slice(-5);
	};
	const read = async () => {
		const answer = await fetch(line.dataset.quote, { cache: "no-cache", headers: { Accept: "application/json" } });
		ahead = Date.parse(answer.headers.get("Date")) - Date.now() || 0;
		if (!answer.ok) return;
		const quote = await answer.json();
		if (Date.parse(quote.validUntil) === until) return;
		until = Date.parse(quote.validUntil);
		put("send", new URLSearchParams(quote.uri.split("?")[1]).get("amount"), " " + quote.symbol);
		put("to", quote.payTo, "");
		open.href = quote.uri;
		// The path redirects to the current code; its query only forces a new request.
		for (const code of row.querySelectorAll(".qr img")) code.src = line.dataset.quote.replace(/uri$/, "png?") + until;
	};
	const tick = async (event) => {
		clearTimeout(timer);
		if (!row.open || document.hidden) return;
		if (ahead === undefined || left() < 5 * minute) await read().catch(() => {});
		const minutes = Math.ceil(left() / minute), expired = minutes <= 0, pressed = event?.type === "click";
		line.textContent = expired ? (pressed ? say.none : say.ended) : say.holds.replace("{minutes}", minutes).replace("{time}", clock.format(until));
		line.classList.toggle("note", expired);
		if (pressed || expired === renew.hidden) announce(line.textContent);
		for (const part of terms) part.inert = expired;
		renew.hidden = !expired;
		if (pressed && !expired) open.focus();
		clearTimeout(timer);
		timer = setTimeout(tick, minute);
	};
	renew.addEventListener("click", tick);
	row.addEventListener("toggle", tick);
	document.addEventListener("visibilitychange", tick);
	tick();
}
