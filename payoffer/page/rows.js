"use strict";
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
