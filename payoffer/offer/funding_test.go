package offer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fundable are terms with everything that a manifest needs.
func fundable() Terms {
	return Terms{
		BaseURL: "https://pay.example.org", Name: "Example", Operator: "Example Org", Description: "One payment.",
		Contact: "pay@example.org", Amount: 42_00,
		Funding: &Funding{
			EntityType: "group", EntityRole: "steward", Repository: "https://code.example/org/repo",
			WellKnown: "https://code.example/org/repo/raw/main/.well-known/funding-manifest-urls",
			Licenses:  []string{"spdx:Apache-2.0"}, Tags: []string{"caddy", "web-server"},
		},
	}
}

func TestAManifestThatDirectoriesWouldRefuseIsNotPublished(t *testing.T) {
	const rootList = "https://code.example/.well-known/funding-manifest-urls"
	for name, c := range map[string]struct {
		change func(*Terms)
		want   string // empty: accepted
	}{
		"complete":                 {func(*Terms) {}, ""},
		"list at the host's root":  {func(t *Terms) { t.Funding.WellKnown = rootList }, ""},
		"repository on our host":   {func(t *Terms) { t.Funding.Repository, t.Funding.WellKnown = "https://pay.example.org/git", "" }, ""},
		"shortest tag":             {func(t *Terms) { t.Funding.Tags = []string{"go"} }, ""},
		"type":                     {func(t *Terms) { t.Funding.EntityType = "company" }, "individual, group, organisation, other"},
		"role":                     {func(t *Terms) { t.Funding.EntityRole = "" }, "owner, steward, maintainer, contributor, other"},
		"no contact":               {func(t *Terms) { t.Contact = "" }, "set contact"},
		"operator too short":       {func(t *Terms) { t.Operator = "X" }, "set operator"},
		"name too long":            {func(t *Terms) { t.Name = strings.Repeat("n", 251) }, "set name"},
		"description too short":    {func(t *Terms) { t.Description = "Pay." }, "set description"},
		"no list of manifests":     {func(t *Terms) { t.Funding.WellKnown = "" }, "ends in /.well-known/funding-manifest-urls"},
		"needless list":            {func(t *Terms) { t.Funding.Repository = "https://pay.example.org/git" }, "leave it out"},
		"list on another host":     {func(t *Terms) { t.Funding.WellKnown = strings.Replace(rootList, "code", "evil", 1) }, "on the repository's host"},
		"list of another project":  {func(t *Terms) { t.Funding.WellKnown = strings.Replace(rootList, "/.w", "/org/repo2/.w", 1) }, "below the repository's path"},
		"list with another name":   {func(t *Terms) { t.Funding.WellKnown = "https://code.example/org/repo/manifests" }, "end in"},
		"list that is no address":  {func(t *Terms) { t.Funding.WellKnown = "main" }, "not an absolute URL"},
		"repository by ssh":        {func(t *Terms) { t.Funding.Repository = "git@code.example:org/repo" }, "repository: "},
		"no license":               {func(t *Terms) { t.Funding.Licenses = nil }, "0 licenses"},
		"six licenses":             {func(t *Terms) { t.Funding.Licenses = make([]string, 6) }, "6 licenses"},
		"empty license":            {func(t *Terms) { t.Funding.Licenses = []string{""} }, "spdx:MIT"},
		"no tag":                   {func(t *Terms) { t.Funding.Tags = nil }, "0 tags"},
		"eleven tags":              {func(t *Terms) { t.Funding.Tags = make([]string, 11) }, "11 tags"},
		"tag of one letter":        {func(t *Terms) { t.Funding.Tags = []string{"c"} }, `the tag "c"`},
		"tag with a capital":       {func(t *Terms) { t.Funding.Tags = []string{"Web"} }, "lower-case"},
		"tag with a double hyphen": {func(t *Terms) { t.Funding.Tags = []string{"web--server"} }, "single hyphens"},
		"tag that ends in a digit": {func(t *Terms) { t.Funding.Tags = []string{"web3"} }, "a letter at both ends"},
		"tag that is too long":     {func(t *Terms) { t.Funding.Tags = []string{strings.Repeat("a", 33)} }, "2 to 32"},
	} {
		t.Run(name, func(t *testing.T) {
			terms := fundable()
			c.change(&terms)
			card, err := NewCard("https://checkout.example/pay", nil, terms.Amount)
			require.NoError(t, err)
			_, err = New(terms, card)
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "funding: ")
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestARailNameMustFitTheManifest(t *testing.T) {
	terms := fundable()
	card, err := NewCard("https://checkout.example/pay", nil, terms.Amount)
	require.NoError(t, err)
	for length, ok := range map[int]bool{27: true, 28: false} {
		shop, err := NewStorefront(strings.Repeat("s", length), "https://shop.example/x", terms.Amount)
		require.NoError(t, err)
		_, err = New(terms, card, shop)
		require.Equal(t, ok, err == nil, "%d: %v", length, err)
	}
	terms.Funding = nil
	shop, err := NewStorefront(strings.Repeat("s", 28), "https://shop.example/x", terms.Amount)
	require.NoError(t, err)
	_, err = New(terms, card, shop)
	require.NoError(t, err, "without a manifest there is no such bound")
}
