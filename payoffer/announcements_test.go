package payoffer

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/desk"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// withAsides is an instance whose receiver has refused the announcements of two
// payments. They return with their numbers.
func withAsides(t *testing.T) (o *operated, receiver *payoffertest.Receiver, seqs [2]string) {
	t.Helper()
	receiver = payoffertest.NewReceiver(t)
	o = newOperated(t, strings.Replace(books, "bank_transfer", "announce "+receiver.URL()+"\n\t\tbank_transfer", 1))
	svc := onChain()
	sum := sha256.Sum256([]byte(receiver.URL()))
	sink := "webhook:" + hex.EncodeToString(sum[:16])
	for n, reference := range []string{"INV-1", "INV-2"} {
		o.enter(`{"action":"enter","rail":"transfer","reference":"` + reference + `","amount":42,"date":"2026-11-20"}`)
		receiver.Await(n + 1)
	}
	transitions, err := svc.Desk.Ledger.Transitions(t.Context(), svc.Offer.ID, 0, 10)
	require.NoError(t, err)
	require.Len(t, transitions, 2)
	for n, tr := range transitions {
		seqs[n] = strconv.FormatInt(tr.Seq, 10)
		// Another owner has had the receiver three days ago.
		require.Eventually(t, func() bool {
			now := time.Now().Unix()
			_, held, err := svc.Desk.Ledger.LeaseSink(t.Context(), svc.Offer.ID, sink, "before", now, now)
			return err == nil && held
		}, 30*time.Second, time.Millisecond)
		require.NoError(t, svc.Desk.Ledger.SetAside(t.Context(), svc.Offer.ID, sink, "before", tr.Seq, "refused 422", 1_795_176_000))
	}
	return o, receiver, seqs
}

func TestCommandAnnouncementsShowsSendsAndForgetsWhatIsSetAside(t *testing.T) {
	o, receiver, seqs := withAsides(t)
	const gauge = "caddy_pay_offer_announcements_set_aside"
	require.InDelta(t, 2, metric(t, gauge), 0)

	var out string
	var err error
	require.Eventually(t, func() bool { // Caddy's events are told beside the receiver
		out, err = o.payOffer("announcements")
		return err != nil || regexp.MustCompile(`(?m)^`+offer.Host(o.service)+` +events +0 +-$`).MatchString(out)
	}, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, err)
	require.Regexp(t, `(?m)^`+offer.Host(o.service)+` +`+receiver.Host()+` +0 +-$`, out)
	require.Regexp(t, `(?m)^`+seqs[0]+` +`+receiver.Host()+` +transfer:INV-1:1:[0-9a-f]{16} +payment_confirmed +2026-11-20T12:00:00Z +refused 422$`, out)
	require.NotContains(t, out, "secret-path")

	receiver.Script(payoffertest.AnnouncedReply{Status: http.StatusConflict})
	out, err = o.payOffer("announcements", "--retry", seqs[0])
	require.ErrorContains(t, err, "1 stay set aside")
	require.Regexp(t, "^"+seqs[0]+` transfer:INV-1:1:[0-9a-f]{16}: not taken \(refused 409\)\n$`, out)

	out, err = o.payOffer("announcements", "--retry", seqs[0])
	require.NoError(t, err)
	require.Regexp(t, "^"+seqs[0]+` transfer:INV-1:1:[0-9a-f]{16}: taken by `+receiver.Host()+`, out of its order\n$`, out)
	all := receiver.Requests()
	require.Contains(t, string(all[len(all)-1].Body), `"outOfOrder":true`)

	out, err = o.payOffer("announcements", "--skip", "all")
	require.NoError(t, err)
	require.Regexp(t, "^"+seqs[1]+` transfer:INV-2:1:[0-9a-f]{16}: forgotten\n$`, out)
	require.Len(t, receiver.Requests(), len(all), "nobody is told")
	require.Zero(t, metric(t, gauge))
	out, err = o.payOffer("announcements", "--retry", "all")
	require.NoError(t, err)
	require.Equal(t, "nothing is set aside\n", out)
	require.Contains(t, o.log(), "the operator decided about announcements")
}

func TestWhatIsNotSetAsideIsNeitherSentNorForgotten(t *testing.T) {
	o, _, _ := withAsides(t)
	for body, want := range map[string]struct {
		status int
		says   string
	}{
		`{"action":"retry","seq":999}`:  {http.StatusNotFound, "no announcement with the number 999 is set aside"},
		`{"action":"burn"}`:             {http.StatusBadRequest, "the action is retry or skip"},
		`{"action":"skip","ref":"x"}`:   {http.StatusBadRequest, "cannot be read"},
		`{"offer":"x","action":"skip"}`: {http.StatusNotFound, "no offer has the id"},
	} {
		got := o.ask(http.MethodPost, desk.PathAnnouncements, body)
		require.Equal(t, want.status, got.status)
		require.Contains(t, got.body, want.says)
	}
	require.Equal(t, http.StatusMethodNotAllowed, o.ask(http.MethodPut, desk.PathAnnouncements, "").status)
	for _, arguments := range [][]string{{"--retry", "0"}, {"--skip", "x"}} {
		_, err := o.payOffer(append([]string{"announcements"}, arguments...)...)
		require.ErrorContains(t, err, "takes a number of the list, or all")
	}
	_, err := o.payOffer("announcements", "--retry", "all", "--skip", "all")
	require.Error(t, err)
	out, err := o.payOffer("announcements", "--json")
	require.NoError(t, err)
	require.Contains(t, out, `"reason":"refused 422"`)
}
