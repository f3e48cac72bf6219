"use strict";
// Updates the live part of a page in place.
function arrived(region, page) {
	const now = page.getElementById("live");
	if (!now) return;
	change(region, now);
	document.title = page.title;
}

// Makes one element equal to another and keeps the focus, the selection, and open details.
function change(old, now) {
	for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
	for (const { name } of [...old.attributes]) if (name !== "open" && !now.hasAttribute(name)) old.removeAttribute(name);
	let at = old.firstChild;
	const drop = () => {
		const gone = at;
		at = at.nextSibling;
		gone.remove();
	};
	for (const node of now.childNodes) {
		const same = node.id && [...old.children].find((child) => child.id === node.id);
		while (same && at !== same) drop();
		if (!at || at.nodeName !== node.nodeName || at.id !== node.id) {
			const made = document.importNode(node, true);
			if (at && !node.id && !at.id) {
				at.replaceWith(made);
				at = made.nextSibling;
			} else old.insertBefore(made, at);
			continue;
		}
		if (node.nodeType === Node.ELEMENT_NODE) change(at, node);
		else if (at.data !== node.data) at.data = node.data;
		at = at.nextSibling;
	}
	while (at) drop();
}
