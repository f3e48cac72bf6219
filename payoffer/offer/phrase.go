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
// USD, EUR and Decimals. Numbers and amounts are formatted for the language.
type With map[string]any

// Decimal is a number such as "0.0005".
type Decimal string

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
	Only Phrase // the only coin and network that arrive, if others can be lost; else empty
	Page string // the path of a page of the rail's own, or empty
	Asks bool   // the page asks visitors if a new payment is theirs, because by hand they get no receipt
}

// dollars is an amount of US dollars as the language writes numbers.
func dollars(amount USD) Phrase { return Phrase{Key: "fact.dollars", With: With{"amount": amount}} }

// coins is an amount of a coin as the language writes numbers.
func coins(amount, symbol string) Phrase {
	return Phrase{Key: "fact.coins", With: With{"amount": Decimal(amount), "symbol": symbol}}
}
