package payoffer

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/diagnose"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
)

// diagnose are the problems of the gates, as 'check --live' finds them.
func (o *operated) diagnose() (found []string) {
	o.t.Helper()
	report := diagnose.Run(o.t.Context(), diagnose.World{
		Transport: http.DefaultTransport, Now: time.Now,
		Ask: func(context.Context) ([]operator.Diagnostics, error) {
			var answer struct{ Offers []operator.Diagnostics }
			return answer.Offers, json.Unmarshal([]byte(o.ask(http.MethodGet, operator.PathDiagnostics, "").body), &answer)
		},
		Pass: func(_ context.Context, p operator.PassChange) (pass operator.Pass, err error) {
			body, err := json.Marshal(p)
			require.NoError(o.t, err)
			return pass, json.Unmarshal([]byte(o.ask(http.MethodPost, operator.PathPasses, string(body)).body), &pass)
		},
	}, activeApp().Checked())
	for _, issue := range report.Issues {
		require.NotEqual(o.t, diagnose.NotRunning.Name, issue.Code)
		require.NotEqual(o.t, diagnose.SettingsDiffer.Name, issue.Code)
		if issue.Code == diagnose.GateOpen.Name {
			found = append(found, strings.ReplaceAll(issue.What, o.service, "SERVICE"))
		}
	}
	return found
}

// The check of a running server asks each gate as a payer does, and leaves no pass.
func TestCheckLiveReachesEachGate(t *testing.T) {
	const handled = "\trespond \"the application\" 200"
	for name, c := range map[string]struct {
		site string
		want []string
	}{
		"inside":  {"\tpay_offer_gate /course/* {\n\t\tstart /course/\n\t}\n" + handled, nil},
		"covered": {"\t@course path /course /course/*\n\tpay_offer_gate @course {\n\t\tstart /course\n\t}\n" + handled, nil},
		"outside": {"\tpay_offer_gate /course/* {\n\t\tstart /course\n\t}\n" + handled, []string{"SERVICE/course answers 200 without a payment, and not 402"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOperated(t, strings.Replace(smallest, handled, c.site, 1))
			for range 6 {
				require.Equal(t, c.want, o.diagnose())
			}
			require.Equal(t, "OFFER  PASS  EXPIRES  REVOKED  BROWSERS  NOTE\n", must(o.payOffer("pass"))(t))
			require.Contains(t, o.get(o.service+"/v1/received").body, `"payments":0,`, "a pass is no payment")
		})
	}
}
