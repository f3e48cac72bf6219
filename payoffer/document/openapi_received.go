package document

import (
	"net/http"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// receivedOperation is the report and the feed, which differ by parameters.
func receivedOperation() operation {
	from := func(minimum int) object {
		return object{{"type", "integer"}, {"format", "int64"}, {"minimum", minimum}}
	}
	return operation{
		method: http.MethodGet, path: offer.PathReceived, id: "getReceived", tag: tagReceipts,
		summary: "Received payments and the evidence for them, or every change of them in order",
		description: "Without `after`: the report. Receipts come newest first, and a rail that cannot be observed reads null, never 0. " +
			"With `after`: the feed. Changes come in the order in which they were recorded; a reader that keeps `last` together with what it did, " +
			"and asks for `next` again and again, misses none and sees none twice.",
		parameters: []object{
			parameter("query", "before", "Receipts older than the one with this number. Not together with after.", from(1)),
			parameter("query", "after", "Changes recorded after the one with this seq; 0 begins at the start.", from(0)),
			parameter("query", "limit", "How many to list: 20 receipts or 100 changes if left out.",
				object{{"type", "integer"}, {"minimum", 1}, {"maximum", 100}}),
		},
		responses: answers(
			on("200", contents("The report, or the feed.",
				media(typeJSON, object{{"oneOf", []any{ref("Received"), ref("Feed")}}}), media(typeHTML, text()))),
			on("503", laterRef)),
	}
}
