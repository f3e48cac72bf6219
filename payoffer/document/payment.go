package document

import "github.com/payoffer/caddy-pay-offer/payoffer/offer"

// What a payer signs, and the specifications of payments, in Markdown. The address of the DID document follows signed.
const (
	signed = "A payment is an EIP-3009 `transferWithAuthorization` of USDC, signed by EIP-712: the struct is TransferWithAuthorization, and " +
		"the domain has `name` and `version` of `extra` in the x402 quote of the same 402, the number in `network` as chainId, and `asset` as verifyingContract.\n\n" +
		"- [x402 version 2](https://github.com/x402-foundation/x402/blob/main/specs/x402-specification-v2.md): the quote, the payment and its answer\n" +
		"- [x402 exact on EVM](https://github.com/x402-foundation/x402/blob/main/specs/schemes/exact/scheme_exact_evm.md): what is signed\n" +
		"- [EIP-3009](https://eips.ethereum.org/EIPS/eip-3009): transferWithAuthorization of USDC\n" +
		"- [payment-identifier](https://github.com/x402-foundation/x402/blob/main/specs/extensions/payment_identifier.md): to buy twice, " +
		"even within two minutes of a 200 that may be lost, add `id` to `extensions[\"payment-identifier\"].info`, new for each purchase: 16 to 128 letters, digits, hyphens and underscores. " +
		"Without it a new signature after a 200 is usually charged, too\n" +
		"- [offer-receipt](https://github.com/x402-foundation/x402/blob/main/specs/extensions/extension-offer-and-receipt.md): " +
		"the receipt is in PAYMENT-RESPONSE, at `extensions[\"offer-receipt\"].info.receipt.signature`. It is a compact JWS (EdDSA, Ed25519). " +
		"Its payload has `version`, `network`, `resourceUrl`, `payer`, `issuedAt` in Unix seconds, and perhaps `transaction`. " +
		"Verify it with the key that has its `kid` in the did:web document of this host, "
	signedMPP = "- [MPP](https://datatracker.ietf.org/doc/draft-httpauth-payment/): the Payment HTTP authentication scheme\n" +
		"- [MPP evm/charge](https://github.com/tempoxyz/mpp-specs/blob/main/specs/methods/evm/draft-evm-charge-00.md): its challenge and credential\n"
)

// specifications are those of an offer with a USDC rail.
func specifications(o *offer.Offer) string {
	text := signed + "<" + o.URL(offer.PathDID) + ">\n"
	if o.Challenges() {
		text += signedMPP
	}
	return text
}

// inBase64 is the schema of JSON in an encoding, with the schema of this name.
func inBase64(encoding, name string) object {
	return object{"type": "string", "contentEncoding": encoding, "contentMediaType": typeJSON, "contentSchema": refer("schemas/" + name)}
}

// paymentHeaders are the Header Objects of answers to payments.
var paymentHeaders = object{
	"PAYMENT-REQUIRED":   object{"description": "PaymentRequired of x402.", "schema": inBase64("base64", "PaymentRequired")},
	"PAYMENT-RESPONSE":   object{"description": "SettleResponse of x402.", "schema": inBase64("base64", "SettleResponse")},
	"X-PAYMENT-RESPONSE": object{"description": "SettleResponse of x402.", "schema": inBase64("base64", "SettleResponse")},
	"Payment-Receipt":    object{"description": "PaymentReceipt of MPP.", "schema": inBase64("base64url", "PaymentReceipt")},
	"WWW-Authenticate": object{"schema": object{"type": "string"},
		"description": "The challenges of MPP, one for each chain. The parameter request of each has the schema x-request.", "x-request": inBase64("base64url", "ChargeRequest")},
}

// withPayment adds payment headers to a response.
func withPayment(response any, names ...string) {
	all := object{}
	for _, name := range names {
		all[name] = paymentHeaders[name]
	}
	response.(object)["headers"] = all
}
