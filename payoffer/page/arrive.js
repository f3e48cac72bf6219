"use strict";
// Polls the page that shows new payments: this page, or the page of payments received. The
// function arrived of another script handles a changed page.
{
	const region = document.querySelector("[data-arrive]");
	const say = JSON.parse(document.getElementById("texts").textContent).arrive;
	const shown = 4_000, hidden = 15_000, longest = 120_000, hour = 3_600_000;
	const stopped = Object.assign(document.createElement("p"), { className: "note", role: "status" });
	const late = document.getElementById("late"); // says what to do if nothing arrives for a minute
	if (late) setTimeout(() => { late.hidden = false; }, 60_000);
	let timer, polling, failures = 0, lastInput = Date.now();

	const schedule = (wait) => {
		clearTimeout(timer);
		timer = setTimeout(poll, wait);
	};

	async function poll() {
		if (polling || !region?.matches("[data-arrive]:not([hidden])")) return; // the page waits for nothing
		if (Date.now() - lastInput >= hour) {
			stopped.textContent = say.stopped;
			region.after(stopped);
			return;
		}
		polling = true;
		clearTimeout(timer);
		let retry = 0;
		try {
			const answer = await fetch(region.dataset.arrive || location.pathname + location.search, {
				headers: { Accept: "text/html" }, cache: "no-store", signal: AbortSignal.timeout(30_000),
			});
			if (answer.ok) {
				const page = (await answer.text()).replace(/<style>[^]*?<\/style>/g, ""); // the policy would report it
				arrived(region, new DOMParser().parseFromString(page, "text/html"));
			}
			failures = answer.ok ? 0 : failures + 1;
			retry = 1_000 * answer.headers.get("Retry-After") || 0;
		} catch {
			failures++;
		}
		polling = false;
		const wait = document.hidden ? hidden : shown;
		schedule(failures ? Math.max(Math.min(wait * 2 ** failures, longest), retry) : wait);
	}

	function resume() {
		const stoppedBefore = stopped.isConnected;
		lastInput = Date.now();
		stopped.remove();
		return stoppedBefore;
	}
	for (const sign of ["pointerdown", "keydown"]) addEventListener(sign, () => resume() && poll(), { passive: true });
	region?.addEventListener("watch", poll);
	addEventListener("pageshow", () => resume() | poll()); // also from the back/forward cache
	document.addEventListener("visibilitychange", () => {
		if (document.hidden) return stopped.isConnected || schedule(hidden);
		resume();
		poll();
	});
}
