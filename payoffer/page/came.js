"use strict";
// Says on the page that takes a payment what came since it was opened, by the rows of
// the page of received payments.
// What was there when this tab first looked is not told; it is kept for the
// tab that a phone throws away while the wallet is open.
function arrived(region, page) {
	const say = JSON.parse(document.getElementById("texts").textContent).came;
	const rows = [...page.querySelectorAll("[data-number]")];
	const newest = Math.max(0, ...rows.map((row) => row.dataset.number));
	let since = newest;
	try {
		since = Math.min(newest, sessionStorage.arrived ?? newest);
		sessionStorage.arrived = since;
	} catch {
		since = arrived.since ??= newest; // no storage: for as long as the page is open
	}
	const came = rows.filter((row) => row.dataset.say && row.dataset.number > since);
	const box = document.createElement("section");
	box.className = "sheet";
	for (const [title, of] of [
		[say.confirmed, came.filter((row) => row.dataset.shown === "confirmed")],
		[say.seen, came.filter((row) => row.dataset.shown !== "confirmed")],
	]) {
		if (!of.length) continue;
		const items = document.createElement("ul");
		for (const row of of) items.append(element("li", row.dataset.say));
		box.append(element("h2", title), items);
	}
	if (came.length) box.append(element("p", say.whose));
	if (box.textContent !== region.textContent) region.replaceChildren(...(came.length ? [box] : []));
}

function element(name, text) {
	const made = document.createElement(name);
	made.textContent = text;
	return made;
}
