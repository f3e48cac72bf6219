"use strict";
// A link to a row opens it, also in a browser that does not do so by itself.
function showRow() {
	const row = document.getElementById(location.hash.slice(1))?.closest("details");
	if (row) row.open = true;
}
addEventListener("hashchange", showRow);
showRow();

// A second device that can scan a code is likely beside a wide screen and before paper.
const wide = matchMedia("(min-width: 48rem), print").matches;
function showCodes() {
	for (const code of document.querySelectorAll("details.qr")) code.open = true;
}
if (wide) showCodes();
addEventListener("beforeprint", showCodes);
