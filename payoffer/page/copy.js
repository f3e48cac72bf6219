"use strict";
// Adds copy buttons if the browser can copy.
if (navigator.clipboard) {
	const say = JSON.parse(document.getElementById("texts").textContent).copy;
	document.documentElement.classList.add("copies");
	const copy = async (button, value) => {
		const label = button.textContent;
		try {
			await navigator.clipboard.writeText(value);
			button.textContent = say.copied;
		} catch {
			button.textContent = say.failed;
			const shown = button.closest("dd")?.firstElementChild;
			if (shown) getSelection().selectAllChildren(shown);
		}
		setTimeout(() => { button.textContent = label; }, 2000);
	};
	const add = (place, className, text, name, value) => {
		const button = document.createElement("button");
		Object.assign(button, { type: "button", className, textContent: text });
		button.setAttribute("aria-label", name);
		button.setAttribute("aria-live", "polite");
		button.addEventListener("click", () => copy(button, value()));
		place(button);
	};
	for (const value of document.querySelectorAll("dd[data-copy]")) {
		// The label names the value and, if the page has several, the payment method.
		const name = [value.previousElementSibling.textContent], way = value.closest(".way")?.querySelector("h3");
		if (way) name.push(way.firstChild.data.trim());
		add((button) => value.append(button), "copy", say.copy, say.label.replace("{name}", name.join(", ")), () => value.dataset.copy);
	}
	for (const list of document.querySelectorAll("[data-all]")) {
		const lines = () => [...list.querySelectorAll("[data-copy]")].map((value) => `${value.previousElementSibling.textContent}: ${value.dataset.copy}`);
		add((button) => list.after(button), "copy all", list.dataset.all, list.dataset.all, () => lines().join("\n"));
	}
	document.addEventListener("click", ({ target }) => target.matches("button[data-copy]") && copy(target, target.dataset.copy));
}
