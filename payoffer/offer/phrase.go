package offer

// Phrase is a text for people, which package text says in their language: the
// key of a text in its catalogues, and what that is filled with. Without a key
// it is Text as it stands, which is of no language: an address, an amount of a
// coin, a name that the operator chose.
type Phrase struct {
	Key  string
	With With
	Text string
}

// With is what the {names} of a text stand for: strings, Phrases, whole numbers,
// and USD or EUR, of which numbers and amounts are written as the language writes them.
type With map[string]any

// Literal is a phrase of no language.
func Literal(text string) Phrase { return Phrase{Text: text} }

// Face is what people see of a rail before they choose it.
type Face struct {
	Name Phrase // what to pay with, as people call it
	Way  Phrase // what a payment was made over, whichever of the choices of Name it was
	Fee  Phrase // what it costs the payer beside the price
	Time Phrase // how long it takes until the money has arrived
	Act  Phrase // what the button does
	Note Phrase // what to know before paying
	// Lock says that Note names who alone sees what the payer enters.
	Lock bool
	// Page is the path of a page of the rail's own; empty for none.
	Page string
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
