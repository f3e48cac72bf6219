package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// clockCaddyfile is an offer with two facilitators on two hosts.
const clockCaddyfile = `{
	admin localhost:{ADMIN}
	persist_config off
	default_bind 127.0.0.1
	pay_offer {
		ledger sqlite {DIR}/ledger.db
	}
}
http://localhost:{PORT} {
	pay_offer {
		base_url http://localhost:{PORT}
		card https://checkout.example/pay
		usdc base-sepolia 0x52908400098527886E0F7030069857D2E4169EE7 {
			facilitator http://127.0.0.1:{FACILITATOR}
			facilitator http://localhost:{FACILITATOR}
			rpc off
		}
	}
}
`

// If two hosts agree that the machine's clock is wrong, the report, the metrics and the log say so.
func TestAWrongClockIsReported(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"behind by an hour": time.Hour, "ahead by two minutes": -2 * time.Minute, "right": 0} {
		t.Run(name, func(t *testing.T) {
			facilitator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
				_, _ = w.Write([]byte(`{"kinds":[{"x402Version":2,"scheme":"exact","network":"eip155:84532"}]}`))
			}))
			defer facilitator.Close()
			_, facilitatorPort, _ := strings.Cut(strings.TrimPrefix(facilitator.URL, "http://"), ":")
			folder, port, admin := t.TempDir(), payoffertest.FreePort(t), payoffertest.FreePort(t)
			caddyfile := strings.NewReplacer("{DIR}", folder, "{PORT}", port, "{ADMIN}", admin, "{FACILITATOR}", facilitatorPort).Replace(clockCaddyfile)
			base := "http://localhost:" + port
			p := server.Start(t, base, caddyfile)
			offset := func() float64 {
				var report struct {
					Offset float64 `json:"clockOffsetSeconds"`
				}
				answer, body, err := fetch(base + "/v1/received")
				if err == nil && answer.StatusCode == http.StatusOK {
					_ = json.Unmarshal([]byte(body), &report)
				}
				return report.Offset
			}
			if ahead == 0 {
				require.Zero(t, offset())
				return
			}
			require.Eventually(t, func() bool { return offset() != 0 }, 30*time.Second, 50*time.Millisecond, "both have been asked")
			require.InDelta(t, -ahead.Seconds(), offset(), 3)
			_, metrics := get(t, "http://localhost:"+admin+"/metrics")
			require.Regexp(t, `caddy_pay_offer_clock_offset_seconds (-3[56]|1[12])`, metrics)
			p.Terminate()
			p.Await(t)
			require.Equal(t, 1, strings.Count(p.Log(), "the clock of this machine is wrong"))
		})
	}
}
