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
				media(typeJSON, object{{"oneOf", []object{ref("Received"), ref("Feed")}}}), media(typeHTML, text()))),
			on("503", laterRef)),
	}
}

// Words of reports.
var (
	receiptStatuses = []string{"seen", "confirmed", "dropped", "refunded", "reversed"}
	evidenceLevels  = []string{"asserted", "signed", "provider", "chain", "manual"}
	// healthSources and healthErrors are those of package observe.
	healthSources = []string{"chain", "facilitator", "webhook", "provider", "operator"}
	healthErrors  = []string{
		"unreachable", "wrong_chain", "bad_answer", "lagging", "ledger_unavailable", "sources_disagree", "unauthorized", "rate_limited",
		"final_history_changed",
	}
)

// oneOf is one of a fixed list of words.
func oneOf(words []string, description string) object {
	return object{{"type", "string"}, {"enum", words}, {"description", description}}
}

// nullable is a value that is null while it is not known.
func nullable(schema object) object {
	return object{{"oneOf", []object{schema, {{"type", "null"}}}}}
}

func instant() object { return object{{"type", "string"}, {"format", "date-time"}} }

func atomic() object { return described("string", "An integer in the asset's smallest units.") }

func boolean() object { return object{{"type", "boolean"}} }

// receivedSchema is the report of received money.
func receivedSchema() object {
	members := []member{
		{"offer", described("string", "The offer's id.")},
		{"status", object{
			{"type", "string"}, {"enum", []string{"observed", "partial"}},
			{"description", "partial: some money may be unseen or of unknown value."},
		}},
		{"observedAt", instant()},
		{"definition", described("string", "What the words of the report mean.")},
		{"goalMet", boolean()},
		{"testnetMoneyCounts", described("boolean", "Whether the offer runs on test networks alone.")},
		{"rails", listOf(ref("RailReport"))},
		{"receipts", listOf(ref("Receipt"))},
		{"next", nullable(uri("The page with older receipts; null on the last."))},
	}
	for _, sum := range []struct{ name, description string }{
		{"goal", "The price."},
		{"received", "Confirmed money, less refunds."},
		{"external", "received without the operator's own payments."},
		{"remaining", "What is missing to the goal."},
		{"testnet", "Money of test networks that counts nowhere."},
	} {
		members = append(members,
			member{sum.name + "Usd", described("number", "US dollars. "+sum.description)},
			member{sum.name + "UsdDecimal", decimal()})
	}
	return whole(members...)
}

// railReportSchema is what is known of one rail. Sums are null while nobody can
// observe them.
func railReportSchema() object {
	members := []member{
		{"rail", text()},
		{"state", oneOf([]string{"observed", "partial", "manual", "unknown", "removed"},
			"How well the rail is observed. partial: the sums are a lower bound. manual: the operator enters receipts. "+
				"unknown: money may have arrived unseen. removed: the rail is no longer offered.")},
		{"testnet", boolean()},
		{"source", nullable(oneOf(healthSources, "What the rail is observed by."))},
		{"observedThrough", nullable(described("string", "How far the source has been read."))},
		{"lagSeconds", nullable(object{{"type", "integer"}, {"minimum", 0}})},
		{"lastError", nullable(oneOf(healthErrors, "Why the rail is not observed as it should be."))},
	}
	for _, part := range []struct{ name, description string }{
		{"confirmed", "Received, less what was refunded of it."},
		{"seen", "Announced and not sure yet."},
		{"asserted", "The part of seen that rests on unsigned messages alone."},
		{"claimed", "A facilitator's word alone."},
		{"settling", "Payments whose outcome is not known yet."},
		{"refunded", "What went back; payments that did so in part are not counted."},
		{"reversed", "What was taken back by a dispute or the operator."},
	} {
		sum := object{{"oneOf", []object{ref("Sum"), {{"type", "null"}}}}, {"description", part.description}}
		members = append(members, member{part.name, sum})
	}
	return whole(members...)
}

// sumSchema is a sum of money movements. The dollars are null while the value
// of a part is unknown.
func sumSchema() object {
	return whole(
		member{"count", object{{"type", "integer"}, {"minimum", 0}}},
		member{"amountAtomic", atomic()},
		member{"amountUsd", nullable(dollars())},
		member{"amountUsdDecimal", nullable(decimal())},
	)
}

// receiptSchema is one money movement.
func receiptSchema() object {
	required := []member{
		{"id", described("string", "Names the movement of money by its evidence.")},
		{"number", described("integer", "Counts the receipts, for the parameter before.")},
		{"rail", text()},
		{"status", oneOf(receiptStatuses, "What the movement amounts to.")},
		{"evidence", oneOf(evidenceLevels, "What proves the movement.")},
		{"final", described("boolean", "Whether nothing can change the receipt any more.")},
		{"own", described("boolean", "Whether the operator paid.")},
		{"testnet", boolean()},
		{"asset", text()},
		{"amountAtomic", atomic()},
		{"refundedAtomic", atomic()},
		{"amountUsd", nullable(dollars())},
		{"amountUsdDecimal", nullable(decimal())},
		{"occurredAt", instant()},
	}
	return record(namesOf(required), append(required,
		member{"via", described("string", "How the money was sent, where it is known.")},
		member{"transaction", described("string", "Where the movement is recorded.")})...)
}

// feedSchema is the changes of receipts in order.
func feedSchema() object {
	return whole(
		member{"offer", described("string", "The offer's id.")},
		member{"transitions", listOf(ref("Transition"))},
		member{"last", described("integer", "The seq of the last change; the one asked after where there is none.")},
		member{"next", uri("What to ask for next time, whether or not there is more now.")},
	)
}

// transitionSchema is one change of a receipt.
func transitionSchema() object {
	required := []member{
		{"seq", described("integer", "Grows in the order in which changes are recorded; not every number is used.")},
		{"id", described("string", "Names the change for good, as its announcements do: rail, receipt (percent-encoded) and version.")},
		{"rail", text()},
		{"receipt", described("string", "The receipt's id.")},
		{"version", object{{"type", "integer"}, {"minimum", 1}, {"description", "Counts the changes of the receipt."}}},
		{"from", nullable(oneOf(receiptStatuses, "The status before; null for the first change of a receipt."))},
		{"to", oneOf(receiptStatuses, "The status after.")},
		{"amountAtomic", atomic()},
		{"refundedAtomic", atomic()},
		{"amountUsd", nullable(dollars())},
		{"amountUsdDecimal", nullable(decimal())},
		{"asset", text()},
		{"evidence", oneOf(evidenceLevels, "What proves the movement now.")},
		{"own", described("boolean", "Whether the operator paid.")},
		{"testnet", boolean()},
		{"occurredAt", instant()},
		{"cause", described("string", "A short word for what the change was noticed by.")},
		{"at", instant()},
	}
	return record(namesOf(required), append(required, member{"via", described("string", "How the money was sent, where it is known.")})...)
}

// whole is the schema of an object that always has all of its members.
func whole(members ...member) object { return record(namesOf(members), members...) }

func namesOf(members []member) []string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.name
	}
	return names
}
