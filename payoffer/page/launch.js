"use strict";
// Says so if a link to a wallet opened none: the page keeps the focus and stays visible.
{
	const say = JSON.parse(document.getElementById("texts").textContent).launch;
	const note = Object.assign(document.createElement("p"), { className: "note", role: "alert", textContent: say.none });
	let timer;
	for (const link of document.querySelectorAll(".by-hand > .actions > a")) {
		if (/^(https?|mailto):$/.test(link.protocol)) continue;
		link.addEventListener("click", () => {
			opened();
			timer = setTimeout(() => link.parentElement.after(note), 1_500);
		});
	}
	const opened = () => {
		clearTimeout(timer);
		note.remove();
	};
	addEventListener("blur", opened);
	document.addEventListener("visibilitychange", opened);
}
