"use strict";
// Shows the print button, which needs a script.
{
	const button = document.getElementById("print");
	button.hidden = false;
	button.addEventListener("click", () => print());
}
