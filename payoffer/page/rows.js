"use strict";
// The rows of payment methods behave like radio buttons: the open one stays open, and the arrow
// keys open the next one.
const ways = [...document.querySelectorAll("details.way")];
for (const way of ways) {
	const summary = way.firstElementChild;
	const mark = () => { summary.ariaCurrent = way.open ? "true" : null; };
	way.addEventListener("toggle", mark);
	mark();
	summary.addEventListener("click", (event) => way.open && event.preventDefault());
	summary.addEventListener("keydown", (event) => {
		const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
		if (!step || event.ctrlKey || event.altKey || event.metaKey) return;
		event.preventDefault();
		const shown = ways.filter((other) => !other.hidden); // a wallet payment hides the others
		const next = shown.at((shown.indexOf(way) + step) % shown.length).firstElementChild;
		next.focus();
		next.click();
	});
}

// Opens the row that the URL names; some browsers do not do it themselves.
function showRow() {
	const row = document.getElementById(location.hash.slice(1))?.closest("details");
	if (row) row.open = true;
}
addEventListener("hashchange", showRow);
showRow();

// On a wide screen and on paper the code is open: the visitor may scan it with a phone.
const wide = matchMedia("(min-width: 48rem), print").matches;
function showCodes() {
	for (const code of document.querySelectorAll("details.qr")) code.open = true;
}
if (wide) showCodes();
addEventListener("beforeprint", showCodes);
