"use strict";
// Stores that this browser has paid, so that the payment page asks before a second payment. A failed payment is
// removed. A page without a checkout leads to that of the payment that this browser remembers.
{
	const region = document.getElementById("live"), known = document.getElementById("known");
	const paid = "pay-offer paid", here = location.pathname + location.search;
	const attempt = (work) => { try { work(); } catch {} }; // storage may be forbidden
	const remember = () => attempt(() => {
		if (region.dataset.paid === "true") localStorage[paid] = here;
		else if (region.dataset.paid && localStorage[paid] === here) delete localStorage[paid];
	});
	attempt(() => {
		if (!known || !localStorage[paid]?.startsWith("/v1/thanks?")) return;
		known.href = localStorage[paid];
		known.hidden = false;
	});
	new MutationObserver(remember).observe(region, { attributeFilter: ["data-paid"] });
	remember();
}
