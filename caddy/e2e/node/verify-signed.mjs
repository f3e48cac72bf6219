// The official verifier (@x402/extensions) of signed offers and receipts, and of the bazaar extension. Environment:
// QUOTE and SETTLEMENT, the headers; BODY, that of the quote, which has the offers; PAYER, the buyer's address. It prints
// {"error"} or {"offers", "receipt", "matches", "bazaar", "paymentId"}: the verified payloads, whether the receipt is for
// the first offer and the payer, what is wrong with the bazaar extension, and the id that a client gives its payment.
import { decodePaymentRequiredHeader } from "@x402/core/http";
import { validateDiscoveryExtension, validateDiscoveryExtensionSpec } from "@x402/extensions/bazaar";
import {
  decodeSignedOffers,
  extractOffersFromPaymentRequired,
  extractReceiptFromResponse,
  findAcceptsObjectFromSignedOffer,
  verifyOfferSignatureJWS,
  verifyReceiptMatchesOffer,
  verifyReceiptSignatureJWS,
} from "@x402/extensions/offer-receipt";
import { appendPaymentIdentifierToExtensions, extractAndValidatePaymentIdentifier } from "@x402/extensions/payment-identifier";

// The process ends with the test that started it.
process.stdin.on("end", () => process.exit(1)).resume();

const { QUOTE, BODY, SETTLEMENT, PAYER } = process.env;

async function verify() {
  const quote = decodePaymentRequiredHeader(QUOTE);
  const signed = extractOffersFromPaymentRequired(JSON.parse(BODY));
  const receipt = extractReceiptFromResponse(new Response(null, { headers: { "PAYMENT-RESPONSE": SETTLEMENT } }));
  const decoded = decodeSignedOffers(signed);
  for (const [index, offer] of decoded.entries()) {
    if (findAcceptsObjectFromSignedOffer(offer, quote.accepts) !== quote.accepts[index]) {
      throw new Error(`offer ${index} is not that of accepts[${index}]`);
    }
  }
  return {
    offers: await Promise.all(signed.map((offer) => verifyOfferSignatureJWS(offer))),
    receipt: await verifyReceiptSignatureJWS(receipt),
    matches: verifyReceiptMatchesOffer(receipt, decoded[0], [PAYER]),
    bazaar: [validateDiscoveryExtension, validateDiscoveryExtensionSpec].flatMap(
      (validate) => validate(quote.extensions.bazaar).errors ?? [],
    ),
    paymentId: extractAndValidatePaymentIdentifier({ extensions: appendPaymentIdentifierToExtensions(quote.extensions) }).id,
  };
}

console.log(JSON.stringify(await verify().catch((error) => ({ error: String(error) }))));
process.exit();
