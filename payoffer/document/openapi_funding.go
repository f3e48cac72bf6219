package document

import "github.com/payoffer/caddy-pay-offer/payoffer/offer"

// fundingSchema is a FLOSS/fund manifest with what this service says in it.
func fundingSchema() object {
	page := record([]string{"url"}, member{"url", uri("The page.")}, member{"wellKnown", uri("The list of manifests.")})
	return whole(
		member{"version", constant("v1.0.0")},
		member{"entity", whole(
			member{"type", oneOf(offer.EntityTypes, "What the entity is.")},
			member{"role", oneOf(offer.EntityRoles, "What it is to the project.")},
			member{"name", text()},
			member{"email", text()},
			member{"description", text()},
			member{"webpageUrl", page})},
		member{"projects", listOf(whole(
			member{"guid", text()},
			member{"name", text()},
			member{"description", text()},
			member{"webpageUrl", page},
			member{"repositoryUrl", page},
			member{"licenses", listOf(text())},
			member{"tags", listOf(text())}))},
		member{"funding", whole(
			member{"channels", listOf(whole(
				member{"guid", text()},
				member{"type", oneOf([]string{"bank", "payment-provider", "other"}, "What kind of channel it is.")},
				member{"address", text()},
				member{"description", text()}))},
			member{"plans", listOf(whole(
				member{"guid", text()},
				member{"status", constant("active")},
				member{"name", text()},
				member{"description", text()},
				member{"amount", dollars()},
				currencyMember(),
				member{"frequency", constant("one-time")},
				member{"channels", listOf(text())}))},
			member{"history", object{{"type", "array"}}})})
}
