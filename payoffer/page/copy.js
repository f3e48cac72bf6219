"use strict";
// Adds copy buttons if the browser can copy.

// announce lets screen readers say a text.
const announced = document.body.appendChild(document.createElement("p"));
announced.className = "unseen";
announced.setAttribute("role", "status");
function announce(text) {
	announced.textContent = text;
}

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
		announce(button.textContent);
		setTimeout(() => {
			button.textContent = label;
			announce("");
		}, 2000);
	};
	const add = (place, className, text, name, value) => {
		const button = document.createElement("button");
		Object.assign(button, { type: "button", className, textContent: text, ariaLabel: name });
		button.addEventListener("click", () => copy(button, value()));
		place(button);
	};
	for (const value of document.querySelectorAll("dd[data-copy]")) {
		// The label names the value and, if the page has several, the account or the payment method.
		const name = [value.previousElementSibling.textContent, headingOf(value)].filter(Boolean);
		add((button) => value.append(button), "copy", say.copy, say.label.replace("{name}", name.join(", ")), () => value.dataset.copy);
	}
	for (const list of document.querySelectorAll("[data-all]")) {
		const lines = () => [...list.querySelectorAll("[data-copy]")].map((value) => `${value.previousElementSibling.textContent}: ${value.dataset.copy}`);
		const name = [list.dataset.all, headingOf(list)].filter(Boolean).join(", ");
		add((button) => list.after(button), "button plain all", list.dataset.all, name, () => lines().join("\n"));
	}
	document.addEventListener("click", ({ target }) => target.matches("button[data-copy]") && copy(target, target.dataset.copy));
}

// headingOf is what distinguishes a value from others of its name: the heading of its list or of its row.
function headingOf(value) {
	const list = value.closest(".facts").previousElementSibling;
	const heading = list?.matches("h3") ? list : value.closest(".way")?.querySelector("h3");
	return heading?.firstChild.data.trim();
}
