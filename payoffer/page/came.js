"use strict";
// Asks before a second payment, in place of the payment methods: a browser that has paid, and one that
// used a method without a receipt on this page, whether a new payment is its own. Payments are the rows
// of the page of payments received. used maps such methods to the newest payment before their use, and
// came has the sentences of new ones. A phone may discard the tab while its wallet is open.
const element = (name, properties) => Object.assign(document.createElement(name), properties);
const attempt = (work) => { try { return work(); } catch {} }; // storage may be forbidden
const place = document.getElementById("arrived"), poller = document.querySelector("[data-arrive]");
const remembered = "pay-offer paid"; // the page of the payment, by paid.js or by the answer
let newest, { used, came } = attempt(() => JSON.parse(sessionStorage.came)) ?? { used: {}, came: [] };

function store() {
	attempt(() => sessionStorage.came = JSON.stringify({ used, came }));
	ask();
}

// byHand is the part of a method without a wallet in the browser, which is hidden while such a wallet is shown.
const byHand = (rail) => rail?.querySelector(".by-hand") ?? rail;

function ask() {
	const say = JSON.parse(document.getElementById("texts").textContent).came;
	const page = attempt(() => localStorage[remembered]) ?? "";
	const paid = page.startsWith("/v1/thanks"), box = element("section", { className: "sheet" });
	const lines = paid ? [say.twice] : [...came, say.yours];
	const yes = element("a", { className: "button", href: paid ? page : place.dataset.page, textContent: paid ? say.show : say.mine });
	const no = element("button", { className: "link", type: "button", textContent: paid ? say.again : say.keep });
	yes.addEventListener("click", () => attempt(() => localStorage[remembered] = yes.pathname + yes.search));
	no.addEventListener("click", () => {
		attempt(() => delete localStorage[remembered]);
		for (const rail in used) used[rail] = newest;
		came = [];
		store();
		document.querySelector(".way[open] > summary")?.focus();
	});
	const actions = element("p", { className: "actions" });
	actions.append(yes, no);
	box.append(element("h2", { textContent: paid ? say.paid : say.whose }), ...lines.map((textContent) => element("p", { textContent })), actions);
	if (!paid && !came.length) place.replaceChildren();
	else if (box.textContent !== place.textContent) {
		const focused = place.parentElement.contains(document.activeElement);
		place.replaceChildren(box);
		if (focused) yes.focus({ preventScroll: true });
	}
}

for (const rail of document.querySelectorAll("[data-ask]")) {
	const way = rail.closest("details"), waiting = rail.querySelector(".waiting");
	const wallet = rail.querySelector(".wallet"), hand = byHand(rail);
	const use = () => {
		if (!poller) return;
		if (waiting) waiting.hidden = false;
		if (rail.id in used && !poller.hidden) return;
		used[rail.id] ??= undefined; // until the next look, which is now
		poller.hidden = false;
		poller.dispatchEvent(new Event("watch"));
	};
	// A wallet in the browser shows its own receipt: only the panel of other wallets is waited for.
	wallet?.addEventListener("click", () => {
		delete used[rail.id];
		waiting.hidden = true;
		store();
	});
	way?.addEventListener("click", () => hand.hidden || use());
	if (wallet && rail.id in used) hand.dataset.used = ""; // for its script, which runs after this one
	if (!way || rail.id in used || (!wallet && location.hash === "#" + rail.id)) use();
}
ask();
addEventListener("pageshow", ask);
addEventListener("storage", ask);

function arrived(_, page) {
	const rows = [...page.querySelectorAll("[data-number]")];
	newest = Math.max(0, ...rows.map((row) => row.dataset.number));
	for (const rail in used) {
		// During and after a payment of a wallet in the browser, a new payment is the wallet's.
		if (document.querySelector(`.held [id="${rail}"] > .wallet`)) used[rail] = newest;
		used[rail] ??= newest;
	}
	const hidden = (rail) => byHand(document.getElementById(rail))?.hidden;
	const mine = rows.filter(({ dataset: { say, number, rail } }) => say && number > used[rail] && !hidden(rail));
	came = mine.map((row) => row.dataset.say);
	store();
}
