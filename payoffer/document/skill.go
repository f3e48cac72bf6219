package document

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// skillName must be the folder of offer.PathSkill.
const skillName = "pay"

// Skill is the agent skill (Agent Skills format): how to pay by each rail.
func Skill(o *offer.Offer) Document {
	var b strings.Builder
	fmt.Fprintf(&b, "---\nname: %s\ndescription: %s\nmetadata:\n  version: %q\n---\n\n", skillName, skillDescription(o), Version)
	fmt.Fprintf(&b, "# Pay %s to %s\n\n", price(o), markdown(o.Operator))
	fmt.Fprintf(&b, "The offer is “%s”: %s\n\n", markdown(o.Name), markdown(o.Description))
	reported := " Received money is\n  reported at <" + o.URL(offer.PathReceived) + ">."
	if o.PrivateReceived {
		reported = ""
	}
	fmt.Fprintf(&b, `## Before you pay

- A human must have authorised this spending: the amount, the payee and the
  rail. If that is not certain, ask first.
- A 402 answer or a 200 invoice is a quote, not a payment.%s
- Pay once. When the outcome of a payment is unknown, find it out before you
  try again; never start a second payment.

## Ways to pay

`, reported)
	for _, r := range o.Rails {
		skillRail(&b, o, r)
	}
	skillPrograms(&b, o)
	skillGates(&b, o)
	return Document{Type: "text/markdown; charset=utf-8", Body: []byte(b.String())}
}

// skillDescription is a YAML double-quoted scalar; Go's escapes are a subset of YAML 1.2's.
// Readers of the format reject angle brackets.
func skillDescription(o *offer.Offer) string {
	plain := strings.NewReplacer("<", "", ">", "").Replace
	return strconv.Quote("Pay " + price(o) + " to " + plain(o.Operator) + " for " + plain(o.Name) +
		". Use when a person asks to pay, sponsor or support it and has authorised the spending.")
}

// skillRail writes one rail.
func skillRail(b *strings.Builder, o *offer.Offer, r offer.Rail) {
	m := unpricedMethod(o, r)
	fmt.Fprintf(b, "### %s\n\n", markdown(m.Title))
	switch {
	case m.URL != "":
		fmt.Fprintf(b, "- Open in a browser: <%s>\n", m.URL)
	case m.URI != "":
		fmt.Fprintf(b, "- Open with a wallet or mail program: `%s`\n", m.URI)
	case m.InvoiceURL != "":
		fmt.Fprintf(b, "- POST <%s> makes an invoice for one payment. Its answer has what a wallet pays, and the address of the receipt.\n", m.InvoiceURL)
	default:
		b.WriteString("- The amount follows the exchange rate: read the URI just before paying.\n")
	}
	if m.Symbol != "" && m.PayTo != "" && m.AmountAtomic != "" {
		fmt.Fprintf(b, "- Check before you send: %s of the token `%s` on network `%s` to `%s`, which is `%s` atomic units.\n",
			m.AmountUSD.String()+" "+m.Symbol, m.Asset, m.Network, m.PayTo, m.AmountAtomic)
	}
	if m.Bank != nil {
		fmt.Fprintf(b, "- Or transfer it to %s, with the reference %s.\n", markdown(m.Bank.String()), markdown(m.Memo))
	}
	name := r.Name()
	fmt.Fprintf(b, "- URI: <%s>, QR code: <%s>\n\n", o.URL(offer.URIPath(name)), o.URL(offer.PNGPath(name)))
}

// skillPrograms writes how a program pays.
func skillPrograms(b *strings.Builder, o *offer.Offer) {
	b.WriteString("## For programs\n\n")
	fmt.Fprintf(b, "- Every rail as JSON: <%s>\n", o.URL(offer.PathInvoice))
	fmt.Fprintf(b, "- Tool `%s` at the agent endpoint <%s>\n", ToolName, o.URL(offer.PathMCP))
	fmt.Fprintf(b, "- API description: <%s>\n", o.URL(offer.PathOpenAPI))
	if btc := o.Bitcoin(); btc != nil {
		fmt.Fprintf(b, `- A 503 from <%s> means that there is no
  amount in bitcoin now. Its "detail" has the reason. Wait the seconds of
  Retry-After, or pay by another rail. Never guess the amount. With
  "Accept: application/json" the member "validUntil" is the end of the amount.
`, o.URL(offer.URIPath(btc.Name())))
	}
	if len(o.USDC()) == 0 {
		return
	}
	fmt.Fprintf(b, `
### Pay by x402

1. Send POST to <%s> without a payment. The answer is
   402: the header PAYMENT-REQUIRED contains the terms of version 2, the body those
   of version 1 and the signed offers.
2. Compare amount, token, network and payee with the rail above, and sign one of
   the requirements in "accepts". %s
3. Send the same POST again with the payment in the header PAYMENT-SIGNATURE
   (version 2) or X-PAYMENT (version 1): base64 of JSON, whose schema the API
   description has. Keep the signed payment until you have a definite answer.

The answer says what to do:

- 200: paid. Keep the body and PAYMENT-RESPONSE (X-PAYMENT-RESPONSE in version
  1), which name the transaction. Do not pay again: a new signature can be charged.
  "authorization" is the nonce of the payment that was charged. If you signed
  again although an earlier payment was charged, it is that one's.
- 400: the payment could not be read, and was not sent. Correct the header.
- 402 to a request with a payment: it was refused and not charged, and "error"
  says why.
- 409: it was not sent. An earlier payment of the payer is open, whose nonce is
  "intent", or has the same authorization or identifier: send that one again,
  unchanged. Or it cannot be known whether it was charged: tell the person.
- 429: too many attempts. Wait the seconds of Retry-After, then send the same
  payment again.
- 503: not known yet. It is neither a refusal nor a receipt, and the money may
  have moved. Wait the seconds of Retry-After and send the identical payment
  again, same signature and nonce, until the answer is another. Never sign a new
  payment: both could be charged. If it stays so, stop and tell the person.

A client that pays by x402 over MCP or A2A can do so at the agent endpoint; the
same rules hold there.
`, o.URL(offer.PathSponsor), capNote(o))
	if o.Challenges() {
		fmt.Fprintf(b, `
### Pay by the Payment scheme (MPP)

The same 402 has a challenge for each chain in WWW-Authenticate: Payment, method
%s, intent %s, credential type authorization. It is the same signature, with
this nonce: the Keccak-256 of the challenge's id followed by its realm, as UTF-8
without a separator. A client that answers one sends its credential in the
header %s of the same POST; a 200 has Payment-Receipt.
Over MCP the challenges and the credential stand in _meta. The answers mean what
they mean above, with the reason in "detail"; send one payment, by x402 or by this scheme, never both.
`, challengeMethod, challengeIntent, o.MPP)
	}
	b.WriteString("\n### Specifications\n\n" + specifications(o))
}

// skillGates writes what the payment opens.
func skillGates(b *strings.Builder, o *offer.Offer) {
	if len(o.Gates) == 0 {
		return
	}
	b.WriteString("\n## What the payment opens\n\nOne payment opens all of these. Never pay for each: a GET of access.url in the\nanswer to a payment opens them, if you follow redirects and keep cookies.\n\n")
	listGates(b, o)
	if len(o.USDC()) > 0 {
		b.WriteString(`
A request without a payment gets the 402. Send it again with the payment, as
above: the answer has the content, and a cookie that opens the addresses of its
host again. Without the cookie, send the same payment header again, unchanged.
That works by MPP, and by x402 version 2 if the payment repeats the "extensions"
of the 402.
`)
	}
}
