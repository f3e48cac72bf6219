package offer

// Phrase is a text for people, which package text translates. Key is the key in its
// catalogues, and With has the values of the placeholders. Without a Key it is Text in
// every language, such as an address, an amount of a coin, or a name that the operator
// chose.
type Phrase struct {
	Key  string
	With With
	Text string
}

// With has the values of the {placeholders} of a text: strings, Phrases, whole numbers,
// and USD or EUR. Numbers and amounts are formatted for the language.
type With map[string]any

// Literal is a phrase that is the same in every language.
func Literal(text string) Phrase { return Phrase{Text: text} }

// Face is what people see of a rail before they choose it.
type Face struct {
	Icon string // lines in a square of 24 units: the data of an SVG path
	Name Phrase // the payment method
	Way  Phrase // the method of a past payment
	Fee  Phrase // the payer's cost in addition to the price
	Hint Phrase // how long the money takes, or a shop's host
	Act  Phrase // the label of the button
	Note Phrase // what to know before paying
	Page string // the path of a page of the rail's own, or empty
	Asks bool   // the page asks visitors if a new payment is theirs, because they get no receipt
}

// list is phrases one after the other, as the language lists them.
func list(phrases []Phrase) Phrase {
	if len(phrases) == 1 {
		return phrases[0]
	}
	return Phrase{Key: "fact.list", With: With{"first": phrases[0], "rest": list(phrases[1:])}}
}

// dollars is an amount of US dollars as the language writes numbers.
func dollars(amount USD) Phrase { return Phrase{Key: "fact.dollars", With: With{"amount": amount}} }
