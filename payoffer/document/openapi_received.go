package document

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
		{"state", object{
			{"type", "string"}, {"enum", []string{"observed", "partial", "unknown", "removed"}},
			{"description", "How well the rail is observed; partial: the sums are a lower bound."},
		}},
		{"testnet", boolean()},
		{"source", nullable(described("string", "What the rail is observed by."))},
		{"observedThrough", nullable(described("string", "How far the source has been read."))},
		{"lagSeconds", nullable(object{{"type", "integer"}, {"minimum", 0}})},
		{"lastError", nullable(described("string", "A stable code."))},
	}
	for _, status := range []string{"confirmed", "seen", "claimed", "settling", "refunded", "reversed"} {
		members = append(members, member{status, nullable(ref("Sum"))})
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
		{"status", text()},
		{"evidence", described("string", "What proves the movement.")},
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

// whole is the schema of an object that always has all of its members.
func whole(members ...member) object { return record(namesOf(members), members...) }

func namesOf(members []member) []string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.name
	}
	return names
}
