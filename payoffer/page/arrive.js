"use strict";
// Looks again and again, and only for what has changed, at the page that tells what
// arrived: this page itself, or that of received payments. What becomes of it is the
// function arrived of another script.
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
		if (looking || !region?.matches("[data-arrive]:not([hidden])")) return; // nobody waits, or no longer
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
				const page = (await answer.text()).replace(/<style>[^]*?<\/style>/g, ""); // which no policy need allow
				arrived(region, new DOMParser().parseFromString(page, "text/html"));
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

	function here() {
		const anew = stopped.isConnected;
		person = Date.now();
		stopped.remove();
		return anew;
	}
	for (const sign of ["pointerdown", "keydown"]) addEventListener(sign, () => here() && look(), { passive: true });
	region?.addEventListener("watch", look);
	addEventListener("pageshow", () => here() | look()); // also out of the back/forward cache
	document.addEventListener("visibilitychange", () => {
		if (document.hidden) return stopped.isConnected || later(hidden);
		here();
		look();
	});
}
