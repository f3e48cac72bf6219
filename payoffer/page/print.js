"use strict";
// Printing has a button where a script can press it.
{
	const button = document.getElementById("print");
	button.hidden = false;
	button.addEventListener("click", () => print());
}
