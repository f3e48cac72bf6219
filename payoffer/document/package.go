package document

import (
	"regexp"
	"strings"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

// packageJSON is an npm package document with funding addresses. It is private, which
// prevents that it is published by mistake.
type packageJSON struct {
	Name        string    `json:"name"`
	Version     string    `json:"version"`
	Private     bool      `json:"private"`
	Description string    `json:"description"`
	Homepage    string    `json:"homepage" jsonschema:"The page for people."`
	Funding     []funding `json:"funding"`
}

type funding struct {
	Type string `json:"type"`
	URL  string `json:"url" jsonschema:"Where to pay."`
}

// Package is the package document. Funding has web addresses only, because npm drops the
// whole list if one entry has another scheme. The page with all rails is the last entry.
func Package(o *offer.Offer) Document {
	var list []funding
	for _, r := range o.Rails {
		if m := unpricedMethod(o, r); m.URL != "" {
			list = append(list, funding{Type: r.Name(), URL: m.URL})
		}
	}
	if t := o.BankTransfer(); t != nil {
		list = append(list, funding{Type: t.Name(), URL: o.URL(offer.PagePath(t.Name()))})
	}
	list = append(list, funding{Type: "every rail", URL: o.URL(offer.PathMethods)})
	return JSON(typeJSON, packageJSON{
		Name: packageName(o), Version: Version, Private: true,
		Description: o.Description, Homepage: o.SitePage(), Funding: list,
	})
}

var notPackageName = regexp.MustCompile(`[^a-z0-9]+`)

// maxPackageName is npm's limit.
const maxPackageName = 214

// packageName is the offer's name as an npm package name, or its host if the name has no
// Latin letter or digit.
func packageName(o *offer.Offer) string {
	slug := func(s string) string {
		s = notPackageName.ReplaceAllString(strings.ToLower(s), "-")
		return strings.Trim(s[:min(len(s), maxPackageName)], "-")
	}
	if name := slug(o.Name); name != "" {
		return name
	}
	return slug(offer.Host(o.BaseURL))
}
