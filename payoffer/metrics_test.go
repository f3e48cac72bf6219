package payoffer

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert/yaml"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/postgres"
)

// The first delivery that could not be stored is an increase, for which the
// counter must have stood at zero before.
func TestWebhookCounterStartsAtZero(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(`SERVICE {
	pay_offer {
		base_url SERVICE
		card https://checkout.example/pay {
			payment_link plink_1
			webhook_secret whsec_test_0123456789abcdef
		}
		storefront pack https://pack.example/42 {
			product p
			hook_secret 0123456789abcdef
		}
		storefront tip-jar https://tip-jar.example/42
	}
}
`))

	stored := make(map[string]float64) // by rail and verdict
	for _, family := range gathered(t) {
		for _, m := range family.GetMetric() {
			labels := make(map[string]string)
			for _, label := range m.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if family.GetName() == "caddy_pay_offer_webhook_deliveries_total" &&
				labels["offer"] == offer.Host(i.service) && (labels["verdict"] == "unavailable" || labels["verdict"] == "limited") {
				stored[labels["rail"]+" "+labels["verdict"]] = m.GetCounter().GetValue()
			}
		}
	}
	require.Equal(t, map[string]float64{"card unavailable": 0, "pack unavailable": 0, "card limited": 0, "pack limited": 0}, stored)
}

func TestClockOffsetMetric(t *testing.T) {
	i := newInstance(t)
	require.NoError(t, i.load(smallest))
	const gauge = "caddy_pay_offer_clock_offset_seconds"
	require.Zero(t, metric(t, gauge))
}

// A scrape must end before Prometheus gives up, also with hundreds of offers and a database that is far away.
func TestMetricsScrapeBatchesLedgerQueries(t *testing.T) {
	const offers = 40
	i, server := newInstance(t), postgres.Shared(t)
	far := server.Far(t, 0)
	var sites strings.Builder
	for n := range offers {
		fmt.Fprintf(&sites, "http://offer-%d.localhost:%s {\n\tpay_offer {\n\t\tbase_url http://offer-%[1]d.localhost:%[2]s\n\t\tcard https://checkout.example/%[1]d\n\t}\n}\n",
			n, payoffertest.FreePort(t))
	}
	require.NoError(t, <-i.loadOn(far.DSN(t, server.DSN(t)), strings.TrimPrefix(freeOrigin(t), "http://"), sites.String()))
	require.Eventually(t, func() bool { // other work asks it too
		before := far.Trips()
		return metric(t, "caddy_pay_offer_ledger_up") == offers && far.Trips()-before < offers
	}, 10*time.Second, time.Millisecond)
}

// Money stands under one status, as in the report: what went back of a payment
// is not confirmed any more, and what anybody may say is not confirmed yet.
func TestMoneyMetricsSubtractRefunds(t *testing.T) {
	sum := func(status ledger.Status, level ledger.EvidenceLevel, count, cents, refunded int64) ledger.Total {
		return ledger.Total{
			BalanceKey: accounting.BalanceKey{Rail: "card", Classification: accounting.Classification{Status: status, EvidenceLevel: level}},
			Sum:        accounting.Sum{Count: count, Amount: cents, USDCents: cents, Refunded: refunded, RefundedCents: refunded},
		}
	}
	inYen := sum(ledger.StatusConfirmed, ledger.LevelSigned, 1, 0, 0)
	inYen.Currency, inYen.Amount, inYen.UnknownUSD = "JPY", 6_500, 1
	type labels struct{ status, evidence string }
	counts, dollars := map[labels]float64{}, map[labels]float64{}
	setSums(func(desc *prometheus.Desc, value float64, values ...string) {
		switch desc {
		case gaugeReceipts:
			counts[labels{values[2], values[3]}] += value
		case gaugeAmount:
			dollars[labels{values[2], values[3]}] += value
		}
	}, "offer", []ledger.Total{
		sum(ledger.StatusConfirmed, ledger.LevelSigned, 2, 84_00, 10_00), sum(ledger.StatusRefunded, ledger.LevelSigned, 1, 42_00, 42_00), inYen,
		sum(ledger.StatusSeen, ledger.LevelChain, 1, 1_00, 0),
	})
	require.Equal(t, map[labels]float64{{"confirmed", "signed"}: 3, {"refunded", "signed"}: 1, {"seen", "chain"}: 1}, counts)
	require.Equal(t, map[labels]float64{{"confirmed", "signed"}: 74, {"refunded", "signed"}: 52, {"seen", "chain"}: 1}, dollars)
}

// metricLabels are the metrics of this module and the labels of each.
func metricLabels() map[string][]string {
	all := map[string][]string{}
	descs := make(chan *prometheus.Desc)
	go func() {
		for _, c := range []prometheus.Collector{attempts, deliveries, upstreamSeconds, gauges{}} {
			c.Describe(descs)
		}
		close(descs)
	}()
	form := regexp.MustCompile(`fqName: "([a-z0-9_]+)".*variableLabels: \{([a-z_,]*)\}`)
	for desc := range descs {
		found := form.FindStringSubmatch(desc.String())
		all[found[1]] = strings.Split(found[2], ",")
	}
	return all
}

// TestAlertRulesUseExistingMetrics reads the rules as Prometheus does and
// looks for the names in them.
func TestAlertRulesUseExistingMetrics(t *testing.T) {
	metrics := metricLabels()
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr, For string
				Annotations      map[string]string
			}
		}
	}
	rules := blocks(t, "yaml")
	require.Len(t, rules, 1)
	require.NoError(t, yaml.Unmarshal([]byte(rules[0].Text), &file))
	require.Len(t, file.Groups, 1)
	require.NotEmpty(t, file.Groups[0].Rules)
	for _, rule := range file.Groups[0].Rules {
		t.Run(rule.Alert, func(t *testing.T) {
			require.NotEmpty(t, rule.Annotations["summary"])
			uses := regexp.MustCompile(`(caddy_pay_offer_[a-z_]+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(rule.Expr, -1)
			require.NotEmpty(t, uses)
			for _, use := range uses {
				require.Contains(t, metrics, use[1])
				for _, label := range regexp.MustCompile(`([a-z_]+)(?:=|!)`).FindAllStringSubmatch(use[2], -1) {
					require.Contains(t, metrics[use[1]], label[1])
				}
			}
			if rule.For != "" {
				must(caddy.ParseDuration(rule.For))(t)
			}
			require.Equal(t, strings.Count(rule.Expr, "("), strings.Count(rule.Expr, ")"))
		})
	}
	for _, p := range documentation(t) {
		for _, name := range regexp.MustCompile(`\bcaddy_pay_offer_[a-z_]*[a-z]`).FindAllString(p.Text, -1) {
			require.Contains(t, metrics, name, "%s names a metric that there is not", p.Name)
		}
	}
}
