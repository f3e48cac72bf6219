"use strict";
// A link to a row opens it, also in a browser that does not do so by itself.
function showRow() {
	const row = document.getElementById(location.hash.slice(1))?.closest("details");
	if (row) row.open = true;
}
addEventListener("hashchange", showRow);
showRow();
