// Prints what two wallets' libraries make of the payment request REQUEST: amount in satoshis, payment hash and end in seconds.
import { decodeInvoice } from "@getalby/lightning-tools/bolt11";
import { decode } from "light-bolt11-decoder";

const request = process.env.REQUEST;
const alby = decodeInvoice(request);
const light = Object.fromEntries(decode(request).sections.map(({ name, value }) => [name, value]));
console.log(JSON.stringify([
	{ satoshis: alby.satoshi, hash: alby.paymentHash, end: alby.timestamp + alby.expiry },
	{ satoshis: Number(light.amount) / 1000, hash: light.payment_hash, end: light.timestamp + (light.expiry ?? decode(request).expiry) },
]));
