"use strict";
// Shows how long a price with an exchange rate is valid and reads it again before it expires:
// only while its row is open, and at most once a minute.
for (const line of document.querySelectorAll("[data-quote]")) {
	const say = JSON.parse(document.getElementById("texts").textContent).quote;
	const row = line.closest("details");
	const minute = 60_000, clock = new Intl.DateTimeFormat(document.documentElement.lang, { timeStyle: "short" });
	let until = Date.parse(line.dataset.until), ahead, timer;
	// ahead is by how many milliseconds the server's clock is ahead of this one.
	const left = () => until - Date.now() - (ahead ?? 0);
	const put = (fact, bare, unit) => {
		const value = row.querySelector(`[data-fact=${fact}]`);
		value.dataset.copy = bare;
		value.firstElementChild.textContent = bare + unit;
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
		row.querySelector(".button").href = quote.uri;
		// The path redirects to the current code; its query only forces a new request.
		for (const code of row.querySelectorAll(".qr img")) code.src = line.dataset.quote.replace(/uri$/, "png?") + until;
	};
	const tick = async () => {
		clearTimeout(timer);
		if (!row.open || document.hidden) return;
		if (ahead === undefined || left() < 5 * minute) await read().catch(() => {});
		const minutes = Math.ceil(left() / minute);
		line.textContent = minutes > 0 ? say.holds.replace("{minutes}", minutes).replace("{time}", clock.format(until)) : say.ended;
		line.classList.toggle("note", minutes <= 0);
		clearTimeout(timer);
		timer = setTimeout(tick, minute);
	};
	row.addEventListener("toggle", tick);
	document.addEventListener("visibilitychange", tick);
	tick();
}
