// Pays from a wallet in the browser by x402: one signature (EIP-3009) and no gas. A signed payment is stored
// before it is sent. Until its outcome is known, only the same bytes are sent again, which can be charged only
// once. Then the outcome is stored in their place, until the payer chooses to pay again.
const texts = JSON.parse(document.getElementById("texts").textContent).wallet;
const language = document.documentElement.lang;
const text = (key, values = {}) => texts[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
// foreign is a text of a wallet or server, shortened, without control characters.
const foreign = (said, length) => String(said ?? "").replace(/\p{C}+/gu, " ").trim().slice(0, length);
const money = (amount) => amount.toLocaleString(language, { minimumFractionDigits: amount % 1 ? 2 : 0, maximumFractionDigits: 6 });
const usdc = (atomic) => money(Number(atomic) / 1e6);
const same = (a, b) => String(a).toLowerCase() === String(b).toLowerCase();
const encode = (value) => btoa(String.fromCharCode(...new TextEncoder().encode(JSON.stringify(value))));
const decode = (header) => JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(header), (c) => c.charCodeAt(0))));
const element = (name, properties) => Object.assign(document.createElement(name), properties);
const makeButton = (textContent, className) => element("button", { type: "button", className, textContent });
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const codeOf = (error) => error?.data?.originalError?.code ?? error?.code;
// The payer declined: EIP-1193 and, from 5000, WalletConnect.
const declined = (error) => [4001, 5000, 5001, 5002, 5003].includes(codeOf(error));
// step is the step that a text belongs to: connect, sign, arrive.
const step = { asking: 0, connect: 0, change: 0, sign: 1, sending: 2, resending: 2, lost: 2, undecided: 2 };

// Stopped ends a payment before anything was sent. words are the wallet's or the server's.
class Stopped extends Error {
	constructor(key, values, words) {
		super(key);
		Object.assign(this, { key, values, words });
	}
}

let ahead; // by how many milliseconds the server's clock was ahead in its latest response
const now = () => Math.floor((Date.now() + ahead) / 1000);

const expired = (header) => Number(decode(header).payload.authorization?.validBefore) + 600 < now();

const attempt = (read, otherwise) => { try { return read(); } catch { return otherwise; } };

async function post(headers) {
	ahead = NaN; // unknown until the response: nothing expires by a clock that may be wrong
	const signal = AbortSignal.timeout(90_000);
	const response = await fetch("/v1/sponsor", { method: "POST", headers, redirect: "error", cache: "no-store", signal });
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
		[, this.steps, this.status, this.timer, this.buttons, this.after, , this.ask] = root.children;
		this.ask.lastElementChild.addEventListener("click", () => this.answer());
		this.tabs = root.previousElementSibling;
		this.byHand = root.nextElementSibling;
		this.byHand.id = this.tabs.lastElementChild.getAttribute("aria-controls");
		[...this.tabs.children].forEach((tab, i) => tab.addEventListener("click", () => this.choose(i)));
		this.tabs.addEventListener("keydown", ({ key }) => ["ArrowLeft", "ArrowRight"].includes(key) && this.tabs.children[1 - this.chosen].click());
	}

	choose(tab) {
		this.chosen = tab;
		this.arrange();
		this.tabs.children[tab].focus();
	}

	// arrange shows the tabs if there is something for this browser. During and after a payment there is only that.
	arrange() {
		const held = Boolean(this.root.closest(".held")), here = Boolean(wallets.size || this.stored || this.end);
		if (here && this.chosen === undefined) {
			this.chosen = Number(this.byHand.contains(document.activeElement) || "used" in this.byHand.dataset); // no focus is moved
			this.byHand.role = "tabpanel";
			this.byHand.setAttribute("aria-labelledby", this.tabs.lastElementChild.id);
		}
		this.tabs.hidden = held || !here;
		this.root.hidden = !here || (!held && this.chosen === 1);
		this.byHand.hidden = !this.root.hidden;
		const look = (i) => ({ ariaSelected: String(i === this.chosen), tabIndex: i === this.chosen ? 0 : -1 });
		[...this.tabs.children].forEach((tab, i) => Object.assign(tab, look(i)));
	}

	get stored() { return attempt(() => localStorage.getItem(this.key), null); }

	// end is the outcome of a payment.
	get end() {
		const end = attempt(() => JSON.parse(this.stored), null);
		return ["received", "claimed", "earlier"].includes(end?.said) ? end : this.stored ? null : this.ended;
	}

	// open is a signed payment without a known outcome.
	get open() { return attempt(() => decode(this.stored).payload.signature && this.stored, null); }

	// drop deletes this payment, but not one that another tab stored in the meantime.
	drop(kept) { if (this.stored === kept) attempt(() => localStorage.removeItem(this.key)); }

	keep(key, value) {
		try {
			localStorage.setItem(key, value);
			if (localStorage.getItem(key) === value) return;
		} catch {} // full, or forbidden
		throw new Stopped("storage");
	}

	// say shows a text and its step. A text without a step is a note.
	say(key, values, words, and = "") {
		const said = key ? `${text(key, { network: this.network, amount: this.amount, ...values })} ${and}`.trim() : "";
		if (words || this.status.textContent !== said) this.status.replaceChildren(said);
		if (words) this.status.append(" ", element("q", { lang: "en", textContent: foreign(words, 400) }));
		this.status.className = key && !(key in step) ? "note" : "";
		this.steps.hidden = !(key in step);
		const look = (i) => ({ className: i < step[key] ? "done" : "", ariaCurrent: i === step[key] ? "step" : null });
		[...this.steps.children].forEach((item, i) => Object.assign(item, look(i)));
	}

	// After a payment nothing pays again until the payer asks for it.
	show() {
		const { stored, open, end } = this, damaged = stored && !open && !end, over = open && expired(open), forgettable = damaged || over;
		const buttons = open ? [this.button(text(over ? "check" : "again"), "button", () => this.send())] : [];
		if (forgettable) buttons.push(this.button(text("forget"), "button plain", () => this.forget(stored)));
		if (!stored && !end) {
			for (const { name, icon, provider } of wallets.values()) {
				const className = wallets.size > 1 ? "button plain pick" : "button"; // one filled button a screen
				const button = this.button(text("pay", { wallet: `\u2068${name}\u2069` }), className, () => this.pay(provider));
				if (icon) button.prepend(element("img", { src: icon, width: 24, height: 24, alt: "" }));
				buttons.push(button);
			}
		}
		this.timer.textContent = !stored && !end && wallets.size > 1 ? text("choose") : "";
		this.buttons.replaceChildren(...buttons);
		this.buttons.hidden = false;
		this.after.className = end ? "actions" : "quiet small";
		this.root.classList.toggle("paid", Boolean(end));
		this.question();
		if (end) {
			this.say();
			const thanks = end.said === "earlier" ? "" : this.terms.thanks;
			this.status.append(element("strong", { textContent: text("paid", { paid: money(Number(end.paid)) }) }), " ");
			if (thanks) this.status.append(element("span", { textContent: thanks }), " ");
			this.status.append(text(end.said));
			this.after.replaceChildren(...this.links(end));
			return;
		}
		if (damaged) this.say("damaged");
		if (over) this.say("over");
		if (forgettable) this.after.textContent = `${damaged ? text("wait") : ""} ${text("forgetWhy", { amount: this.amount })}`.trim();
		else this.after.textContent = stored ? "" : text("free", { amount: this.amount, network: this.network });
	}

	links(end) {
		return [[end.open, "enter"], [end.receipt, "receipt"]].flatMap(([address, key]) => {
			const url = attempt(() => new URL(address), null);
			if (url?.origin !== location.origin) return [];
			if (new URLSearchParams(location.search).has("lang")) url.searchParams.set("lang", language);
			const className = key === "receipt" && end.open ? "button plain" : "button";
			return [element("a", { href: url.href, className, textContent: text(key) })];
		});
	}

	// question asks before another payment can be made. The answer is valid for one payment in this tab.
	question() {
		const { stored, end, ask } = this, keys = end ? ["once", "onceAsk", "onceYes"] : ["other", "otherAsk", "otherYes"];
		ask.hidden = !(stored || end) || answered === state() || Boolean(this.open && expired(this.open));
		ask.open = ask.lastElementChild.disabled = false;
		[...ask.children].forEach((part, i) => part.textContent = text(keys[i]));
	}

	answer() {
		answered = state();
		if (this.end) this.forget(this.stored);
		this.question();
		refresh();
		this.root.closest("details").querySelector("summary").focus();
	}

	button(label, className, work) {
		const button = makeButton(label, className);
		button.addEventListener("click", async () => {
			this.status.focus({ preventScroll: true });
			await exclusively([this], work);
			if (![this.status, document.body, null].includes(document.activeElement)) return;
			(this.root.querySelector("a, button") ?? this.status).focus({ preventScroll: true });
		});
		return button;
	}

	async pay(wallet) {
		try {
			this.keep(this.key, await this.sign(this.cancellable(wallet)));
		} catch (error) {
			const { key, values, words } = error instanceof Stopped ? error : declined(error) ? { key: "declined" } : {
				key: { 4100: "busy", "-32002": "busy" }[codeOf(error)] ?? "failed", words: error?.message,
			};
			return this.say(key, values, words, key === "open" ? "" : text("nothing"));
		}
		this.nonce = undefined;
		if (this.after.contains(document.activeElement)) this.status.focus({ preventScroll: true });
		this.after.replaceChildren();
		await this.send("sending");
	}

	// cancellable adds a cancel button to a wallet. After that no request is made, and no late signature is used.
	cancellable(wallet) {
		const cancel = new AbortController();
		const cancelled = new Promise((_, reject) => cancel.signal.addEventListener("abort", () => reject(cancel.signal.reason)));
		const button = makeButton(text("cancel"), "link");
		button.addEventListener("click", () => cancel.abort(new Stopped("cancelled")));
		return {
			request: async (question) => {
				cancel.signal.throwIfAborted();
				if (!button.isConnected) this.after.replaceChildren(button);
				this.after.className = "actions";
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
		const [from] = (await wallet.request({ method: "eth_requestAccounts" })) ?? [];
		if (!/^0x[0-9a-f]{40}$/i.test(from)) throw new Stopped("busy");
		await this.changeNetwork(wallet);
		await this.checkBalance(wallet, from);
		const [still = from] = (await wallet.request({ method: "eth_accounts" })) ?? []; // some have none after a grant
		if (!same(still, from) || !(await this.onNetwork(wallet))) throw new Stopped("changed");
		this.rejectSecond();
		// The nonce stays the same until a payment with it is stored: the chain accepts only one of the cancelled ones.
		const random = [...crypto.getRandomValues(new Uint8Array(32))];
		const nonce = (this.nonce ??= "0x" + random.map((byte) => byte.toString(16).padStart(2, "0")).join(""));
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

	// quote returns the server's quote, which must have the terms on the page.
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

	// changeNetwork also adds the network, after any error: not all wallets report 4902 for an unknown one.
	async changeNetwork(wallet) {
		if (await this.onNetwork(wallet)) return;
		this.say("change");
		const chainId = "0x" + this.chain.toString(16), { title, rpc, explorer, coin } = this.terms;
		const ask = (method, more) => wallet.request({ method, params: [{ chainId, ...more }] }).then(() => true, (error) => {
			if (declined(error) || codeOf(error) === -32002) throw error;
		});
		if (!(await ask("wallet_switchEthereumChain"))) {
			const nativeCurrency = { name: coin, symbol: coin, decimals: 18 }, blockExplorerUrls = [new URL(explorer).origin];
			await ask("wallet_addEthereumChain", { chainName: title, rpcUrls: [rpc], blockExplorerUrls, nativeCurrency });
			if (!(await this.onNetwork(wallet))) await ask("wallet_switchEthereumChain");
		}
		// Some wallets answer before they have changed, and the payer may change it by hand.
		for (let left = 10; !(await this.onNetwork(wallet)); left--) {
			if (!left) throw new Stopped("wrongChain");
			await pause(500);
		}
	}

	// checkBalance ignores wallets that cannot read the balance.
	async checkBalance(wallet, from) {
		const data = "0x70a08231" + from.slice(2).toLowerCase().padStart(64, "0"); // balanceOf(from)
		const held = await wallet.request({ method: "eth_call", params: [{ to: this.terms.asset, data }, "latest"] }).then(BigInt).catch(() => null);
		if (held === null || held >= BigInt(this.terms.amount)) return;
		throw new Stopped("poor", { account: `${from.slice(0, 6)}…${from.slice(-4)}`, balance: usdc(held) });
	}

	// send sends the stored payment until its outcome is known or a response has no Retry-After.
	async send(first = "resending") {
		this.question();
		for (let header, key = first; (header = this.open); key = "resending") {
			this.say(key);
			const answer = await post({ "PAYMENT-SIGNATURE": header }).catch(() => null);
			if (!answer) return this.say("lost", {}, "", text("kept"));
			const { status, headers, body } = answer;
			if (status === 200 && body.success === true) return this.paid(body, header);
			// A quote without a reason means that the payment header was lost on the way.
			if (status === 402 && body.error && body.error !== "payment required") {
				this.drop(header);
				return this.say("refused", {}, String(body.error).replace(/^\w+:\s/, ""), `${text("nothing")} ${text("says")}`);
			}
			const again = [429, 503].includes(status) && headers.get("Retry-After");
			const words = again ? "" : body.detail; // else for software
			this.say(body.detail ? "undecided" : "lost", {}, words, text("kept") + (words ? " " + text("says") : ""));
			if (!again) return;
			const seconds = Math.ceil(Number(again) || Date.parse(again) / 1000 - now() || 10); // RFC 9110 section 10.2.3
			for (let left = Math.min(Math.max(seconds, 1), 3600); left > 0; left--) {
				this.timer.textContent = text("countdown", { seconds: left });
				await pause(1000);
			}
			this.timer.textContent = "";
		}
		this.say("elsewhere"); // until show() replaces it by the outcome
	}

	paid(body, header) {
		const ours = same(body.authorization, decode(header).payload.authorization?.nonce);
		const said = !ours ? "earlier" : body.status === "seen" ? "received" : "claimed";
		this.ended = { said, paid: body.amountUsd, receipt: body.receiptUrl, open: body.access?.url };
		if (this.stored === header) attempt(() => localStorage.setItem(this.key, JSON.stringify(this.ended)));
		this.drop(header);
	}

	forget(kept) {
		this.ended = undefined;
		this.drop(kept);
		this.say();
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
	for (const place of places) place.arrange();
}

function refresh() {
	if (!busy) for (const place of places) place.show();
	guard();
	shown = state();
}

// exclusively runs work for places unless another tab does.
async function exclusively(at, work) {
	const run = (lock) => (lock === null ? at.forEach((place) => place.say("otherTab")) : work());
	for (const button of document.querySelectorAll(".wallet button")) button.disabled = true;
	for (const { buttons, timer } of at) {
		buttons.hidden = true;
		timer.textContent = "";
	}
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
	const icon = /^data:image\/(png|webp|svg\+xml|gif|jpeg)[;,]/.test(info.icon) && info.icon.length <= 100_000 && info.icon;
	wallets.set(id, { name: foreign(info.name, 40) || text("unnamed"), icon, provider });
	refresh();
}
if (places.length) {
	addEventListener("eip6963:announceProvider", ({ detail }) => found(String(detail?.info?.uuid ?? ""), detail?.info ?? {}, detail?.provider));
	dispatchEvent(new Event("eip6963:requestProvider"));
	const alternative = () => { if (!wallets.size) found("", {}, window.ethereum); };
	alternative();
	addEventListener("ethereum#initialized", alternative);
	for (const wait of [250, 1_000, 2_500, 5_000]) setTimeout(alternative, wait); // some appear late and say nothing
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
