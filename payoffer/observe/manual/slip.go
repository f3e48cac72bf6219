package manual

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// old is how long ago a new entry may be dated without a question.
const old = 400 * 24 * time.Hour

// Slip is what looks like a mistake in the entry of a new payment, or empty. entered are the references of the
// payments that were entered before.
func (e Entry) Slip(price offer.USD, entered []string, now time.Time) string {
	switch {
	case e.Sure:
		return ""
	case e.USD > 3*price || 3*e.USD < price:
		return fmt.Sprintf("the amount %s is far from the price, %s US dollars", e.USD.Decimal(), price.Decimal())
	case !e.OccurredAt.IsZero() && now.Sub(e.OccurredAt) > old:
		return fmt.Sprintf("the date %s is more than 400 days ago", day(e.OccurredAt))
	}
	for _, other := range entered {
		if other != e.Reference && bare(other) == bare(e.Reference) {
			return fmt.Sprintf("another payment has nearly the same reference, %q", other)
		}
	}
	return ""
}

// bare is a reference without what people write in several ways: case, dashes and the form of Unicode characters.
func bare(reference string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Dash, r) {
			return -1
		}
		return r
	}, strings.ToLower(norm.NFKC.String(reference)))
}
