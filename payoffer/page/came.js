"use strict";
// Asks whether a new payment is this visitor's: only for methods without a receipt, and only
// after the visitor used them on this page. It reads the rows of the page of payments received.
// used maps each such method to the newest payment before its use. Session storage keeps it,
// because a phone may discard the tab while the wallet is open.
const element = (name, textContent) => Object.assign(document.createElement(name), { textContent });
let newest, used = {};
try {
	used = JSON.parse(sessionStorage.used);
} catch {} // nothing is stored, or storage is forbidden

function watch() {
	const region = document.getElementById("arrived");
	if (!region.hidden) return;
	region.hidden = false;
	region.dispatchEvent(new Event("watch"));
}
for (const rail of document.querySelectorAll("[data-ask]")) {
	const use = () => {
		used[rail.id] ??= newest;
		watch();
	};
	rail.parentElement.addEventListener("click", use);
	if (location.hash === "#" + rail.id) use();
}
for (const _ in used) watch();

function arrived(region, page) {
	const say = JSON.parse(document.getElementById("texts").textContent).came;
	const rows = [...page.querySelectorAll("[data-number]")];
	newest = Math.max(0, ...rows.map((row) => row.dataset.number));
	for (const rail in used) used[rail] ??= newest;
	try {
		sessionStorage.used = JSON.stringify(used);
	} catch {} // without storage it lasts as long as the page
	const came = rows.filter((row) => row.dataset.say && row.dataset.number > used[row.dataset.rail]);
	const box = element("section", "");
	box.className = "sheet";
	box.append(element("h2", say.whose), ...came.map((row) => element("p", row.dataset.say)), element("p", say.yours));
	if (box.textContent !== region.textContent) region.replaceChildren(...(came.length ? [box] : []));
}

