package payoffer

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

func TestCommandAnnouncementsListsWhatWaits(t *testing.T) {
	receiver := payoffertest.NewReceiver(t)
	o := newOperated(t, strings.Replace(books, "bank_transfer", "announce "+receiver.URL()+"\n\t\tbank_transfer", 1))
	receiver.Script(payoffertest.AnnouncedReply{Status: http.StatusConflict})
	o.enter(`{"action":"enter","rail":"transfer","reference":"INV-1","amount":42,"sure":true,"date":"2026-11-20"}`)
	receiver.Await(1)
	waits := regexp.MustCompile(`(?m)^` + offer.Host(o.service) + ` +` + receiver.Host() + ` +1 +refused$`)
	require.Eventually(t, func() bool {
		out, err := o.payOffer("announcements")
		return err == nil && waits.MatchString(out) && !strings.Contains(out, "secret-path")
	}, 30*time.Second, 10*time.Millisecond)
	out := must(o.payOffer("announcements", "--json"))(t)
	require.Contains(t, out, `"last_error":"refused"`)
	require.Equal(t, http.StatusMethodNotAllowed, o.ask(http.MethodPost, operator.PathAnnouncements, "{}").status)
}
