"use strict";
// Pays from a wallet in the browser by x402: one signature (EIP-3009) and no gas. A signed
// payment is stored before it is sent. Until its outcome is known, only the same bytes are
// sent again and nothing else is signed: they can be charged only once. Then the outcome
// is stored in their place, until the payer chooses to pay again.
{
	const texts = JSON.parse(document.getElementById("texts").textContent).wallet;
	const language = document.documentElement.lang;
	const text = (key, values = {}) => texts[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
	// foreign is a text of a wallet or server, shortened and without control characters, which could reorder the page.
	const foreign = (said, length) => String(said ?? "").replace(/\p{C}+/gu, " ").trim().slice(0, length);
	const money = (amount) => amount.toLocaleString(language, { minimumFractionDigits: amount % 1 ? 2 : 0, maximumFractionDigits: 6 });
	const usdc = (atomic) => money(Number(atomic) / 1e6);
	const same = (a, b) => String(a).toLowerCase() === String(b).toLowerCase();
	const encode = (value) => btoa(String.fromCharCode(...new TextEncoder().encode(JSON.stringify(value))));
	const decode = (header) => JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(header), (c) => c.charCodeAt(0))));
	const element = (name, properties) => Object.assign(document.createElement(name), properties);
	const makeButton = (textContent, className = "button") => element("button", { type: "button", className, textContent });
	const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
	const codeOf = (error) => error?.data?.originalError?.code ?? error?.code;

	// Stopped ends a payment before anything was sent. key is its text, words an explanation by the wallet or server.
	class Stopped extends Error {
		constructor(key, values, words) {
			super(key);
			Object.assign(this, { key, values, words });
		}
	}

	let ahead; // by how many milliseconds the server's clock was ahead in its latest response
	const now = () => Math.floor((Date.now() + ahead) / 1000);

	// expired reports that a payment can no longer be charged.
	const expired = (header) => Number(decode(header).payload.authorization?.validBefore) + 600 < now();

	// attempt returns the result of a function, or otherwise if it throws.
	const attempt = (read, otherwise) => {
		try {
			return read();
		} catch {
			return otherwise;
		}
	};

	// post has a longer time limit than the server has for a payment.
	async function post(headers) {
		ahead = NaN; // unknown until the response: nothing expires by a clock that may be wrong
		const response = await fetch("/v1/sponsor", { method: "POST", headers, redirect: "error", cache: "no-store", signal: AbortSignal.timeout(90_000) });
		ahead = (Date.parse(response.headers.get("Date")) || Date.now()) - Date.now();
		const body = (await response.json().catch(() => null)) ?? {};
		return { status: response.status, headers: response.headers, body };
	}

	const longest = 12_000; // header of a payment: servers and proxies accept 16 KB
	const wallets = new Map(); // announced by EIP-6963
	class Place {
		constructor(root) {
			this.root = root;
			this.terms = root.dataset;
			this.network = this.terms.title;
			this.chain = Number(this.terms.network.split(":")[1]);
			this.amount = usdc(BigInt(this.terms.amount));
			this.key = `pay-offer ${this.terms.offer} ${this.terms.network}`;
			this.buttons = element("p", { className: "actions" });
			this.status = element("p", { role: "status", tabIndex: -1 });
			this.timer = element("p", { className: "quiet small" });
			this.after = element("p");
			this.ask = element("p", { className: "actions" });
			root.append(this.buttons, this.status, this.timer, this.after, this.ask);
		}

		// stored is the payment or its outcome in this browser's storage.
		get stored() { return attempt(() => localStorage.getItem(this.key), null); }

		// end is the outcome of a payment: its text, the amount paid, and the URLs of the receipt and of what it opens.
		get end() {
			const end = attempt(() => JSON.parse(this.stored), null);
			return ["received", "claimed", "earlier"].includes(end?.said) ? end : this.stored ? null : this.ended;
		}

		// open is a signed payment without a known outcome. It may be charged as long as it has a signature.
		get open() { return attempt(() => decode(this.stored).payload.signature && this.stored, null); }

		// drop deletes this payment, but not one that another tab stored in the meantime.
		drop(kept) {
			if (this.stored === kept) attempt(() => localStorage.removeItem(this.key));
		}

		keep(key, value) {
			try {
				localStorage.setItem(key, value);
				if (localStorage.getItem(key) === value) return;
			} catch {} // full, or forbidden
			throw new Stopped("storage");
		}

		say(key, values, words, and = "") {
			const said = `${text(key, { network: this.network, amount: this.amount, ...values })} ${and}`.trim();
			if (words || this.status.textContent !== said) this.status.replaceChildren(said);
			if (words) this.status.append(" ", element("q", { lang: "en", textContent: foreign(words, 400) }));
		}

		// show renders the buttons. After a payment there is none that pays again until the payer asks for it.
		show() {
			const { stored, open, end } = this, damaged = stored && !open && !end, forgettable = damaged || (open && expired(open));
			const buttons = open ? [this.button(text("again"), () => this.send())] : [];
			if (forgettable) buttons.push(this.button(text("forget"), () => this.forget(stored)));
			if (!stored && !end) {
				for (const { name, provider } of wallets.values()) buttons.push(this.button(text("pay", { wallet: `\u2068${name}\u2069` }), () => this.pay(provider)));
			}
			this.buttons.replaceChildren(...buttons);
			this.after.className = end ? "actions" : "quiet small";
			this.question();
			if (end) {
				this.say(end.said, { paid: money(Number(end.paid)) });
				this.after.replaceChildren(...this.links(end));
				return;
			}
			if (damaged) this.say("damaged");
			this.after.textContent = forgettable ? `${text(damaged ? "wait" : "over")} ${text("forgetWhy", { amount: this.amount })}` : buttons.length ? "" : text("none");
		}

		// links are the links to what the payment opens and to the receipt, in the language of the page's URL.
		links(end) {
			return [[end.open, "enter"], [end.receipt, "receipt"]].flatMap(([address, key]) => {
				const url = attempt(() => new URL(address), null);
				if (url?.origin !== location.origin) return [];
				if (new URLSearchParams(location.search).has("lang")) url.searchParams.set("lang", language);
				return [element("a", { href: url.href, className: key === "receipt" && end.open ? "button plain" : "button", textContent: text(key) })];
			});
		}

		// question asks before another payment can be made. The answer is valid for one payment in this tab.
		question() {
			const { stored, end } = this;
			this.ask.replaceChildren();
			if (!(stored || end) || answered === state()) return;
			const button = makeButton(text(end ? "once" : "other"), "button plain");
			button.addEventListener("click", () => {
				answered = state();
				if (end) this.forget(stored);
				refresh();
				this.root.closest("details").querySelector("summary").focus();
			});
			this.ask.append(text(end ? "onceAsk" : "otherAsk"), button);
		}

		button(label, work) {
			const button = makeButton(label);
			button.addEventListener("click", async () => {
				this.status.focus({ preventScroll: true });
				await exclusively([this], work, button);
				if ([this.status, document.body, null].includes(document.activeElement)) (this.root.querySelector("a, button") ?? this.status).focus({ preventScroll: true });
			});
			return button;
		}

		async pay(wallet) {
			try {
				this.keep(this.key, await this.sign(this.cancellable(wallet)));
			} catch (error) {
				const { key, values, words } = error instanceof Stopped ? error : {
					key: { 4001: "declined", 4100: "busy", "-32002": "busy" }[codeOf(error)] ?? "failed", words: codeOf(error) === 4001 ? "" : error?.message,
				};
				return this.say(key, values, words, key === "open" ? "" : text("nothing"));
			}
			this.nonce = undefined;
			if (this.after.contains(document.activeElement)) this.status.focus({ preventScroll: true });
			this.after.replaceChildren();
			await this.send("sending");
		}

		// cancellable wraps a wallet with a cancel button. After that the wallet gets no further requests, and its late
		// answers are ignored: a late signature is neither stored nor sent.
		cancellable(wallet) {
			const cancel = new AbortController();
			const cancelled = new Promise((_, reject) => cancel.signal.addEventListener("abort", () => reject(cancel.signal.reason)));
			const button = makeButton(text("cancel"), "button plain");
			button.addEventListener("click", () => cancel.abort(new Stopped("cancelled")));
			return {
				request: async (question) => {
					cancel.signal.throwIfAborted();
					if (!button.isConnected) this.after.replaceChildren(button);
					return Promise.race([cancelled, wallet.request(question)]);
				},
			};
		}

		// sign returns the header of a signed payment. If it throws, nothing exists that could be charged.
		async sign(wallet) {
			this.rejectSecond();
			this.keep(this.key + "?", "x".repeat(longest)); // a browser that cannot store fails here, before anything is signed
			localStorage.removeItem(this.key + "?");
			this.say("asking");
			const quoted = await this.quote();
			const { accepted } = quoted;
			this.say("connect");
			const accounts = () => wallet.request({ method: "eth_requestAccounts" });
			const [from] = (await accounts()) ?? [];
			if (!/^0x[0-9a-f]{40}$/i.test(from)) throw new Stopped("busy");
			await this.changeNetwork(wallet);
			await this.checkBalance(wallet, from);
			const [still] = (await wallet.request({ method: "eth_accounts" })) ?? [];
			if (!same(still, from) || !(await this.onNetwork(wallet))) throw new Stopped("changed");
			this.rejectSecond();
			// The nonce stays the same until a payment with it is stored: the chain accepts only one of the cancelled ones.
			const nonce = (this.nonce ??= "0x" + [...crypto.getRandomValues(new Uint8Array(32))].map((byte) => byte.toString(16).padStart(2, "0")).join(""));
			const validBefore = now() + Math.min(accepted.maxTimeoutSeconds, 600);
			const authorization = { from, to: this.terms.payTo, value: this.terms.amount, validAfter: "0", validBefore: String(validBefore), nonce };
			const fields = (list) => list.split(", ").map((field) => ({ type: field.split(" ")[0], name: field.split(" ")[1] }));
			this.say("sign");
			const signature = await wallet.request({
				method: "eth_signTypedData_v4",
				params: [from, JSON.stringify({
					types: {
						EIP712Domain: fields("string name, string version, uint256 chainId, address verifyingContract"),
						TransferWithAuthorization: fields("address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce"),
					},
					primaryType: "TransferWithAuthorization",
					domain: { name: accepted.extra.name, version: accepted.extra.version, chainId: this.chain, verifyingContract: this.terms.asset },
					message: authorization,
				})],
			});
			if (!/^0x([0-9a-f]{2}){65,}$/i.test(signature)) throw new Stopped("failed");
			if (now() + 10 > validBefore) throw new Stopped("late");
			this.rejectSecond();
			const header = encode({ x402Version: 2, ...quoted, payload: { signature, authorization } });
			if (header.length > longest) throw new Stopped("long");
			return header;
		}

		// rejectSecond throws if another payment exists, on any network and in any tab.
		rejectSecond() {
			const other = places.find((place) => place.stored || place.end);
			if (other) throw new Stopped("open", { network: other.network });
		}

		// quote is what a payment repeats of the server's quote, which must have the terms on the page.
		async quote() {
			const { status, headers, body } = await post({}).catch(() => { throw new Stopped("noServer"); });
			if (status !== 402) throw new Stopped("noServer", {}, body.detail);
			try {
				const { accepts, resource, extensions } = decode(headers.get("PAYMENT-REQUIRED"));
				const accepted = accepts.find((a) => a.scheme === "exact" && a.network === this.terms.network);
				if (same(accepted.payTo, this.terms.payTo) && same(accepted.asset, this.terms.asset) && accepted.amount === this.terms.amount)
					return { resource, accepted, extensions: { access: extensions?.access } };
			} catch {} // an unreadable quote has other terms
			throw new Stopped("terms");
		}

		async onNetwork(wallet) { return Number(await wallet.request({ method: "eth_chainId" })) === this.chain; }

		// changeNetwork changes the wallet's network, and adds it if it is unknown to the wallet.
		async changeNetwork(wallet) {
			if (await this.onNetwork(wallet)) return;
			this.say("change");
			const chainId = "0x" + this.chain.toString(16);
			const change = () => wallet.request({ method: "wallet_switchEthereumChain", params: [{ chainId }] });
			const { title, rpc, explorer, coin } = this.terms;
			const add = () => wallet.request({
				method: "wallet_addEthereumChain",
				params: [{ chainId, chainName: title, rpcUrls: [rpc], blockExplorerUrls: [new URL(explorer).origin], nativeCurrency: { name: coin, symbol: coin, decimals: 18 } }],
			});
			try {
				await change().catch(async (error) => {
					if (codeOf(error) !== 4902) throw error;
					await add();
					if (!(await this.onNetwork(wallet))) await change();
				});
			} catch (error) {
				if ([4001, -32002].includes(codeOf(error))) throw error;
			} // the payer may have changed it by hand
			if (!(await this.onNetwork(wallet))) throw new Stopped("wrongChain");
		}

		// checkBalance throws if the account has too little. It ignores wallets that cannot read the balance.
		async checkBalance(wallet, from) {
			const data = "0x70a08231" + from.slice(2).toLowerCase().padStart(64, "0"); // balanceOf(from)
			const held = await wallet.request({ method: "eth_call", params: [{ to: this.terms.asset, data }, "latest"] }).then(BigInt).catch(() => null);
			if (held !== null && held < BigInt(this.terms.amount)) throw new Stopped("poor", { account: `${from.slice(0, 6)}…${from.slice(-4)}`, balance: usdc(held) });
		}

		// send sends the stored payment until its outcome is known or a response has no Retry-After.
		async send(first = "resending") {
			for (let header, key = first; (header = this.open); key = "resending") {
				this.question();
				this.say(key);
				let answer;
				try {
					answer = await post({ "PAYMENT-SIGNATURE": header });
				} catch {
					return this.say("lost", {}, "", text("kept"));
				}
				const { status, headers, body } = answer;
				if (status === 200 && body.success === true) return this.paid(body, header);
				// A quote without a reason means that the payment header was lost on the way.
				if (status === 402 && body.error && body.error !== "payment required") {
					this.drop(header);
					return this.say("refused", {}, String(body.error).replace(/^\w+:\s/, ""), text("says"));
				}
				this.say(body.detail ? "undecided" : "lost", {}, body.detail, text("kept") + (body.detail ? " " + text("says") : ""));
				const again = headers.get("Retry-After");
				if (!again || ![429, 503].includes(status)) return;
				const seconds = Math.ceil(Number(again) || Date.parse(again) / 1000 - now() || 10); // seconds or a date, RFC 9110 section 10.2.3
				for (let left = Math.min(Math.max(seconds, 1), 3600); left > 0; left--) {
					this.timer.textContent = text("countdown", { seconds: left });
					await pause(1000);
				}
				this.timer.textContent = "";
			}
			this.say("elsewhere"); // until show() replaces it by the outcome
		}

		// paid stores the outcome of a payment: in the browser, or else as long as the page is open.
		paid(body, header) {
			const ours = same(body.authorization, decode(header).payload.authorization?.nonce);
			this.ended = { said: !ours ? "earlier" : body.status === "seen" ? "received" : "claimed", paid: body.amountUsd, receipt: body.receiptUrl, open: body.access?.url };
			if (this.stored === header) attempt(() => localStorage.setItem(this.key, JSON.stringify(this.ended)));
			this.drop(header);
		}

		// forget deletes a payment for a payer who checked the wallet or pays again.
		forget(kept) {
			this.ended = undefined;
			this.drop(kept);
			this.status.textContent = "";
		}
	}
	const places = [...document.querySelectorAll(".wallet")].map((root) => new Place(root));
	const state = () => places.map(({ stored, end }) => stored ?? end?.said ?? "").join();
	let busy, shown, answered; // the places at work; the state shown; the state in which the payer chose to pay another way

	// guard hides all other payment methods during and after a payment, until the payer answers the question.
	function guard() {
		const at = places.filter((place) => busy?.includes(place) || place.stored || place.end);
		if (answered !== state()) answered = undefined; // the answer was for another payment
		const rows = at.map(({ root }) => root.closest("details")), hold = at.length > 0 && !answered;
		const section = places[0].root.closest("section");
		if (hold && !section.classList.contains("held")) for (const row of rows) row.open = true;
		section.classList.toggle("held", hold);
		for (const row of section.querySelectorAll(".way")) row.hidden = hold && !rows.includes(row);
	}

	function refresh() {
		if (!busy) for (const place of places) place.show();
		guard();
		shown = state();
	}

	// exclusively runs work for places unless another tab does.
	async function exclusively(at, work, pressed) {
		const run = (lock) => (lock === null ? at.forEach((place) => place.say("otherTab")) : work());
		const buttons = document.querySelectorAll(".wallet button");
		for (const button of buttons) button.disabled = true;
		pressed?.setAttribute("aria-busy", "true");
		busy = at;
		guard();
		try {
			// Locks need a secure origin. Without them only the storage separates tabs.
			await (navigator.locks ? navigator.locks.request(`pay-offer ${at[0].terms.offer}`, { ifAvailable: true }, run) : run());
		} finally {
			busy = undefined;
			refresh();
		}
	}

	function found(id, info, provider) {
		if (typeof provider?.request !== "function" || wallets.has(id)) return;
		if (id) wallets.delete(""); // the wallet without an announcement is the same one
		wallets.set(id, { name: foreign(info.name, 40) || text("unnamed"), provider });
		refresh();
	}
	if (places.length) {
		addEventListener("eip6963:announceProvider", ({ detail }) => found(String(detail?.info?.uuid ?? ""), detail?.info ?? {}, detail?.provider));
		dispatchEvent(new Event("eip6963:requestProvider"));
		const alternative = () => { if (!wallets.size) found("", {}, window.ethereum); };
		alternative();
		addEventListener("ethereum#initialized", alternative, { once: true });
		// Another tab signed a payment, or learned its outcome.
		addEventListener("storage", ({ key, newValue }) => {
			const place = places.find((p) => p.key === key);
			if (!place || busy) return;
			if (!newValue) place.ended = undefined;
			place.say(newValue ? "otherTab" : "elsewhere");
			refresh();
		});
		// A page from the back/forward cache, or a tab that slept, received no event.
		addEventListener("pageshow", ({ persisted }) => persisted && refresh());
		document.addEventListener("visibilitychange", () => shown !== state() && refresh());
		refresh();
		const open = places.filter((place) => place.open);
		if (open.length) exclusively(open, () => Promise.all(open.map((place) => place.send())));
	}
}
