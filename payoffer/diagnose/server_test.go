package diagnose

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
)

func TestOtherPaymentLinkIssue(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(s *surroundings)
		want   []Issue
	}{
		"of no other link": {func(s *surroundings) { s.state("card").OtherLinks = "" }, []Issue{}},
		"of two links": {func(s *surroundings) { s.state("card").OtherLinks = "plink_2 plink_3" }, []Issue{
			{"card-link", "pay.example.org", "card", "payment_link is plink_1, and a checkout of plink_2 was paid", CardLink.Fix},
			{"card-link", "pay.example.org", "card", "payment_link is plink_1, and a checkout of plink_3 was paid", CardLink.Fix},
		}},
		"of the link that is configured by now": {func(s *surroundings) {
			s.server.Settings, s.state("card").OtherLinks = "other", "plink_1"
		}, []Issue{{SettingsDiffer.Name, "pay.example.org", "pay.example.org", "the running server has other settings for pay.example.org", SettingsDiffer.Fix}}},
		"of a card that is removed by now": {func(s *surroundings) {
			s.server.Settings, s.offer.Offer.Card, s.offer.Rails = "other", nil, nil
		}, []Issue{{SettingsDiffer.Name, "pay.example.org", "pay.example.org", "the running server has other settings for pay.example.org", SettingsDiffer.Fix}}},
		"and a rail that is not read": {func(s *surroundings) { s.state("card").Error = observe.ErrUnreachable }, []Issue{
			{"card-link", "pay.example.org", "card", "payment_link is plink_1, and a checkout of plink_2 was paid", CardLink.Fix},
			{RailUnobserved.Name, "pay.example.org", "card", "payments by card are not read (unreachable)", "Check the network and the firewall of this machine, and the status page of the source. " + RailUnobserved.of("card").Fix},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := around(t)
			s.card("")
			s.server.Rails = []operator.RailState{{Rail: "card", OtherLinks: "plink_2"}}
			c.breaks(s)
			require.Equal(t, c.want, Run(t.Context(), s.World, []Offer{s.offer}).Issues)
		})
	}
}

// state is what the running server says of a rail.
func (s *surroundings) state(rail string) *operator.RailState {
	return &s.server.Rails[slices.IndexFunc(s.server.Rails, func(r operator.RailState) bool { return r.Rail == rail })]
}

// Each offer of an account gets the webhooks of all of them.
func TestOtherOfferLinkIsNoIssue(t *testing.T) {
	s := around(t)
	s.card("")
	s.server.Rails = []operator.RailState{{Rail: "card", OtherLinks: "plink_2"}}
	card, err := offer.NewCard("https://checkout.example.com/other", nil, 42_00)
	require.NoError(t, err)
	card.PaymentLink = "plink_2"
	terms := s.offer.Offer.Terms
	terms.ID, terms.BaseURL = "shop.example.org", "https://shop.example.org"
	o, err := offer.New(terms, card)
	require.NoError(t, err)
	other := Offer{Settings: &service.Settings{Key: service.KeyOf("other"), Offer: o}}
	for _, issue := range Run(t.Context(), s.World, []Offer{s.offer, other}).Issues {
		require.NotEqual(t, "card-link", issue.Code, issue.What)
	}
}

func TestFailedNotificationIssue(t *testing.T) {
	s := around(t)
	s.server.Receivers = []announce.EndpointHealth{
		{Host: "events"}, {Host: "ntfy.example", Behind: 3}, {Host: "shop.example", Behind: 2, LastError: "refused"}, {Host: "mail.example:587", LastError: "unauthorized"},
	}
	require.Equal(t, []Issue{
		{"notification-failing", "pay.example.org", "mail.example:587", "the last notification to mail.example:587 failed (unauthorized); 0 wait", NotificationFailing.Fix},
		{"notification-failing", "pay.example.org", "shop.example", "the last notification to shop.example failed (refused); 2 wait", NotificationFailing.Fix},
	}, Run(t.Context(), s.World, []Offer{s.offer}).Issues)

	s.server.Receivers = []announce.EndpointHealth{{Host: "events", LastError: "ledger_unavailable"}}
	s.server.Ledger.Writable = false
	require.Equal(t, []string{LedgerUnwritable.Name + " ledger"}, s.found(), "the ledger explains it")
}
