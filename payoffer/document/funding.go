package document

import "github.com/payoffer/caddy-pay-offer/payoffer/offer"

// fundingManifest is a FLOSS/fund manifest, version 1.0.0.
type fundingManifest struct {
	Version  string           `json:"version"`
	Entity   fundingEntity    `json:"entity"`
	Projects []fundingProject `json:"projects"`
	Funding  fundingTerms     `json:"funding"`
}

type fundingEntity struct {
	Type        string     `json:"type" jsonschema:"What the entity is."`
	Role        string     `json:"role" jsonschema:"What it is to the project."`
	Name        string     `json:"name"`
	Email       string     `json:"email"`
	Description string     `json:"description"`
	Page        fundingURL `json:"webpageUrl"`
}

type fundingProject struct {
	ID          string     `json:"guid"`
	Name        string     `json:"name"`
	Description string     `json:"description"`
	Page        fundingURL `json:"webpageUrl"`
	Repository  fundingURL `json:"repositoryUrl"`
	Licenses    []string   `json:"licenses"`
	Tags        []string   `json:"tags"`
}

type fundingURL struct {
	URL       string `json:"url" jsonschema:"The page."`
	WellKnown string `json:"wellKnown,omitempty" jsonschema:"The list of manifests."`
}

type fundingTerms struct {
	Channels []fundingChannel `json:"channels"`
	Plans    []fundingPlan    `json:"plans"`
	History  []struct{}       `json:"history"`
}

type fundingChannel struct {
	ID          string `json:"guid"`
	Type        string `json:"type" jsonschema:"What kind of channel it is."`
	Address     string `json:"address"`
	Description string `json:"description"`
}

type fundingPlan struct {
	ID          string    `json:"guid"`
	Status      string    `json:"status"`
	Name        string    `json:"name"`
	Description string    `json:"description"`
	Amount      offer.USD `json:"amount"`
	Currency    string    `json:"currency"`
	Frequency   string    `json:"frequency"`
	Channels    []string  `json:"channels"`
}

// Bounds of a manifest.
const (
	maxFundingChannels = 10
	maxFundingAddress  = 250
)

// Funding is the FLOSS/fund manifest (funding.json v1.0.0) of an offer that
// has the terms for it: one project, one plan, and a channel for each of the
// first ten rails. Web pages are those of the service's own host, for which a
// directory asks no proof of ownership.
func Funding(o *offer.Offer) Document {
	page := fundingURL{URL: o.URL(offer.PathMethods)}
	plan := fundingPlan{
		ID: "one-payment", Status: "active", Name: "Pay " + price(o), Description: "One fixed payment.",
		Amount: o.Amount, Currency: "USD", Frequency: "one-time",
	}
	var channels []fundingChannel
	for _, r := range o.Rails[:min(len(o.Rails), maxFundingChannels)] {
		c := fundingChannelOf(o, r)
		channels, plan.Channels = append(channels, c), append(plan.Channels, c.ID)
	}
	f := o.Funding
	return JSON(typeJSON, fundingManifest{
		Version: "v1.0.0",
		Entity: fundingEntity{
			Type: f.EntityType, Role: f.EntityRole, Name: o.Operator, Email: o.Contact, Description: o.Description, Page: page,
		},
		Projects: []fundingProject{{
			ID: "project", Name: o.Name, Description: o.Description, Page: page,
			Repository: fundingURL{f.Repository, f.WellKnown}, Licenses: f.Licenses, Tags: f.Tags,
		}},
		Funding: fundingTerms{Channels: channels, Plans: []fundingPlan{plan}, History: []struct{}{}},
	})
}

// fundingChannelOf is a rail as a channel. A rail without a lasting address, or
// with one that is too long, is reached by its URI list.
func fundingChannelOf(o *offer.Offer, r offer.Rail) fundingChannel {
	m := fixed(o, r)
	c := fundingChannel{ID: offer.FundingID(r.Name()), Type: "other", Address: m.PayTo, Description: m.Title}
	_, bank := r.(*offer.Transfer)
	switch {
	case bank:
		c.Type, c.Address = "bank", o.URL(offer.PagePath(r.Name()))
	case m.URL != "":
		c.Type, c.Address = "payment-provider", m.URL
	case m.Symbol != "" && m.PayTo != "":
		c.Description += ": token " + m.Asset + " on " + m.Network
	}
	if c.Address == "" || len(c.Address) > maxFundingAddress {
		c.Address = o.URL(offer.URIPath(r.Name()))
	}
	return c
}
