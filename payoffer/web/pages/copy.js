"use strict";
// Copy buttons exist only where a script can copy.
if (navigator.clipboard) {
	for (const value of document.querySelectorAll("[data-copy]")) {
		const button = document.createElement("button");
		button.type = "button";
		button.className = "copy";
		button.textContent = "Copy";
		button.setAttribute("aria-label", "Copy " + value.dataset.copy);
		button.setAttribute("aria-live", "polite");
		const text = value.textContent;
		button.addEventListener("click", async () => {
			try {
				await navigator.clipboard.writeText(text);
				button.textContent = "Copied";
			} catch {
				button.textContent = "Press Ctrl+C";
				getSelection().selectAllChildren(value.firstElementChild || value);
			}
			setTimeout(() => { button.textContent = "Copy"; }, 2000);
		});
		value.append(button);
	}
}
