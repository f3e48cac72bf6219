"use strict";
// Looks again and again, and only for what has changed, at the page that tells what
// arrived: this page itself, whose live part is brought up to date in place, or that
// of received payments, of which is said what came since this page was opened.
{
	const region = document.querySelector("[data-arrive]");
	const say = JSON.parse(document.getElementById("texts").textContent).arrive;
	const shown = 4_000, hidden = 15_000, longest = 120_000, hour = 3_600_000;
	const stopped = document.createElement("p");
	stopped.className = "note";
	stopped.setAttribute("role", "status");
	let tag, timer, looking, failures = 0, person = Date.now();

	const later = (wait) => {
		clearTimeout(timer);
		timer = setTimeout(look, wait);
	};

	async function look() {
		if (looking) return;
		if (Date.now() - person >= hour) {
			stopped.textContent = say.stopped;
			region.after(stopped);
			return;
		}
		looking = true;
		clearTimeout(timer);
		let retry = 0;
		try {
			const headers = { Accept: "text/html" };
			if (tag) headers["If-None-Match"] = tag;
			const answer = await fetch(region.dataset.arrive || location.pathname + location.search, {
				headers, cache: "no-store", signal: AbortSignal.timeout(30_000),
			});
			if (answer.ok) {
				update(new DOMParser().parseFromString(await answer.text(), "text/html"));
				tag = answer.headers.get("ETag");
			}
			failures = answer.ok || answer.status === 304 ? 0 : failures + 1;
			retry = 1_000 * answer.headers.get("Retry-After") || 0;
		} catch {
			failures++;
		}
		looking = false;
		const wait = document.hidden ? hidden : shown;
		later(failures ? Math.max(Math.min(wait * 2 ** failures, longest), retry) : wait);
	}

	function update(page) {
		if (region.id === "arrived") return list([...page.querySelectorAll("[data-number]")]);
		const now = page.getElementById("live");
		if (now) change(region, now);
	}

	// What was there when this tab first looked is not told; it is kept for the
	// tab that a phone throws away while the wallet is open.
	function list(rows) {
		const newest = Math.max(0, ...rows.map((row) => row.dataset.number));
		let since = newest;
		try {
			since = Math.min(newest, sessionStorage.arrived ?? newest);
			sessionStorage.arrived = since;
		} catch {
			since = list.since ??= newest; // no storage: for as long as the page is open
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

	// Makes one element like another, and keeps what need not change: the focus, the
	// selection, and what a person opened.
	function change(old, now) {
		for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
		for (const { name } of [...old.attributes]) if (name !== "open" && !now.hasAttribute(name)) old.removeAttribute(name);
		let at = old.firstChild;
		for (const node of now.childNodes) {
			const same = node.id && [...old.children].find((child) => child.id === node.id);
			while (same && at !== same) {
				const gone = at;
				at = at.nextSibling;
				gone.remove();
			}
			if (!at || at.nodeName !== node.nodeName || at.id !== node.id) {
				const made = document.importNode(node, true);
				if (at && !node.id && !at.id) {
					at.replaceWith(made);
					at = made.nextSibling;
				} else old.insertBefore(made, at);
				continue;
			}
			if (node.nodeType === Node.ELEMENT_NODE) change(at, node);
			else if (at.data !== node.data) at.data = node.data;
			at = at.nextSibling;
		}
		while (at) {
			const gone = at;
			at = at.nextSibling;
			gone.remove();
		}
	}

	function here() {
		const anew = stopped.isConnected;
		person = Date.now();
		stopped.remove();
		return anew;
	}
	for (const sign of ["pointerdown", "keydown"]) addEventListener(sign, () => here() && look(), { passive: true });
	addEventListener("pageshow", () => here() | look()); // also out of the back/forward cache
	document.addEventListener("visibilitychange", () => {
		if (document.hidden) return stopped.isConnected || later(hidden);
		here();
		look();
	});
}
