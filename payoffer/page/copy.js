"use strict";
// Adds copy buttons if the browser can copy.
if (navigator.clipboard) {
	const say = JSON.parse(document.getElementById("texts").textContent).copy;
	for (const value of document.querySelectorAll("[data-copy]")) {
		const button = document.createElement("button");
		button.type = "button";
		button.className = "copy";
		button.textContent = say.copy;
		// The label names the value and, if the page has several, the payment method.
		const name = [value.previousElementSibling.textContent], way = value.closest(".way")?.querySelector("h3");
		if (way) name.push(way.firstChild.data.trim());
		button.setAttribute("aria-label", say.label.replace("{name}", name.join(", ")));
		button.setAttribute("aria-live", "polite");
		button.addEventListener("click", async () => {
			try {
				await navigator.clipboard.writeText(value.dataset.copy);
				button.textContent = say.copied;
			} catch {
				button.textContent = say.failed;
				getSelection().selectAllChildren(value.firstElementChild);
			}
			setTimeout(() => { button.textContent = say.copy; }, 2000);
		});
		value.append(button);
	}
}
