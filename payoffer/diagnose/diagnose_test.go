package diagnose

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/operator"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// noon is the time of the tests.
var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// surroundings are a world that a test owns: the handlers of its hosts, and what the
// running server reports.
type surroundings struct {
	t *testing.T
	World
	hosts  map[string]http.HandlerFunc
	offer  Offer
	server operator.Diagnostics
	mu     sync.Mutex
	asked  []string // "METHOD host/path"
}

// around is a whole world around an offer whose only rail is the card.
func around(t *testing.T) *surroundings {
	t.Helper()
	card, err := offer.NewCard("https://checkout.example.com/pay?secret=1", nil, 42_00)
	require.NoError(t, err)
	o, err := offer.New(offer.Terms{
		ID: "pay.example.org", BaseURL: "https://pay.example.org", SiteURL: "https://example.org", Name: "An offer", Operator: "An operator",
		Description: "One payment.", Account: "pay", SourceURL: "https://example.org/source", Amount: 42_00, Updated: "2026-11-23",
	}, card)
	require.NoError(t, err)
	settings := &service.Settings{Key: service.KeyOf("test"), Offer: o}
	s := &surroundings{
		t: t, hosts: map[string]http.HandlerFunc{}, offer: Offer{Settings: settings, Links: []string{o.URL(offer.PathHumans), o.URL(offer.PathOffer)}},
		server: operator.Diagnostics{ID: o.ID, Settings: settings.Key, Keys: []string{o.DID() + "#key"}, Ledger: operator.LedgerState{Writable: true}},
	}
	s.hosts["pay.example.org"] = s.own
	s.answers("example.org", http.StatusOK)
	s.answers("checkout.example.com", http.StatusOK)
	s.World = World{
		Transport: s,
		Ask:       func(context.Context) ([]operator.Diagnostics, error) { return []operator.Diagnostics{s.server}, nil },
		Now:       func() time.Time { return noon },
	}
	return s
}

// RoundTrip implements http.RoundTripper.
func (s *surroundings) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Host+r.URL.Path)
	answers := s.hosts[r.URL.Host]
	s.mu.Unlock()
	if answers == nil {
		return nil, &net.DNSError{Name: r.URL.Host, IsNotFound: true}
	}
	recorder := httptest.NewRecorder()
	if r.Body == nil {
		r.Body = http.NoBody
	}
	answers(recorder, r)
	return recorder.Result(), nil
}

// own answers as the offer does.
func (s *surroundings) own(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case offer.PathSponsor, offer.PathOffer:
		w.WriteHeader(http.StatusPaymentRequired)
	case offer.PathHookCard:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case offer.PathDID:
		fmt.Fprintf(w, `{"id":"did:web:pay.example.org","verificationMethod":[{"id":"did:web:pay.example.org#key"}]}`)
	}
}

// answers sets the status of every response of a host.
func (s *surroundings) answers(host string, status int) {
	s.hosts[host] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// refuse answers a path of the offer in front of it.
func (s *surroundings) refuse(path string, status int) {
	s.hosts["pay.example.org"] = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == path {
			w.WriteHeader(status)
			return
		}
		s.own(w, r)
	}
}

// usdc adds a rail with a facilitator and an endpoint.
func (s *surroundings) usdc(facilitator, rpc string) {
	s.t.Helper()
	network, err := offer.LookupNetwork("base-sepolia")
	require.NoError(s.t, err)
	rail, err := offer.NewUSDC("usdc", network, "0x52908400098527886E0F7030069857D2E4169EE7", 42_00)
	require.NoError(s.t, err)
	s.offer.Rails = []service.Rail{service.USDC{USDC: rail, Facilitators: []x402.FacilitatorConfig{{URL: facilitator}}, RPC: []string{rpc}}}
}

// found are the codes of the issues, with their subjects.
func (s *surroundings) found() (codes []string) {
	for _, f := range Run(s.t.Context(), s.World, []Offer{s.offer}).Issues {
		codes = append(codes, f.Code+" "+f.Subject)
	}
	return codes
}

func TestHealthyOfferHasNoIssues(t *testing.T) {
	s := around(t)
	s.answers("checkout.example.com", http.StatusForbidden) // it refuses software, and is not broken
	report := Run(t.Context(), s.World, []Offer{s.offer})
	require.Equal(t, []Issue{}, report.Issues)
	require.Equal(t, "2026-11-23T12:00:00Z", report.CheckedAt)
	require.Equal(t, []Checked{{ID: "pay.example.org", BaseURL: "https://pay.example.org"}}, report.Offers)
	text, err := json.Marshal(report)
	require.NoError(t, err)
	require.Contains(t, string(text), `"issues":[]`)
}

// card adds the card rail with a key of the processor.
func (s *surroundings) card(key string) {
	s.offer.Offer.Card.PaymentLink = "plink_1"
	s.offer.Rails = []service.Rail{service.Card{Card: s.offer.Offer.Card, WebhookSecret: "whsec_0123456789abcdef", APIKey: key}}
}

// Nothing is missing if the key shows the prices, or if nobody paid in another currency.
func TestUnneededCardPricesAreNoIssue(t *testing.T) {
	s := around(t)
	s.card("rk_live_1")
	s.server.Rails = []operator.RailState{{Rail: "card", Foreign: true}}
	processor := payoffertest.NewProcessor("rk_live_1", func() time.Time { return noon })
	s.hosts["api.stripe.com"] = func(w http.ResponseWriter, r *http.Request) {
		res, err := processor.RoundTrip(r)
		require.NoError(t, err)
		w.Header().Set("Date", res.Header.Get("Date"))
		_, _ = io.Copy(w, res.Body)
	}
	require.Empty(t, s.found())
	require.Len(t, processor.Calls(), 1)
	s.card("")
	s.server.Rails = []operator.RailState{{Rail: "card"}, {Rail: "pack", Foreign: true}}
	require.Empty(t, s.found())
}

// A key that reads nothing is no explanation for a rail that is not read.
func TestCardPricesIssueKeepsRailIssue(t *testing.T) {
	s := around(t)
	s.card("rk_live_1")
	s.answers("api.stripe.com", http.StatusUnauthorized)
	s.rail(observe.ErrUnauthorized)
	require.Equal(t, []string{CardPrices.Name + " api.stripe.com", RailUnobserved.Name + " card"}, s.found())
}

func TestOneIssuePerCause(t *testing.T) {
	away := func(context.Context) ([]operator.Diagnostics, error) { return nil, errors.New("no server answers") }
	for name, c := range map[string]struct {
		breaks func(s *surroundings)
		want   string
	}{
		"no server at the address": {func(s *surroundings) { delete(s.hosts, "pay.example.org") }, Unreachable.Name + " pay.example.org"},
		"a proxy that does not reach the server": {func(s *surroundings) {
			s.answers("pay.example.org", http.StatusBadGateway)
		}, Unreachable.Name + " pay.example.org"},
		"other keys":      {func(s *surroundings) { s.server.Keys = []string{"did:web:pay.example.org#other"} }, OtherServer.Name + " pay.example.org"},
		"POST is refused": {func(s *surroundings) { s.refuse(offer.PathSponsor, http.StatusForbidden) }, HeadersCut.Name + " https://pay.example.org/v1/sponsor"},
		"a path that a proxy answers": {func(s *surroundings) {
			s.refuse(offer.PathHumans, http.StatusForbidden)
		}, LinkBroken.Name + " https://pay.example.org/humans.txt"},
		"prices that the key cannot read": {func(s *surroundings) {
			s.card("rk_live_1")
			s.answers("api.stripe.com", http.StatusForbidden)
		}, CardPrices.Name + " api.stripe.com"},
		"prices that only a key can read": {func(s *surroundings) {
			s.card("")
			s.server.Rails = []operator.RailState{{Rail: "card", Foreign: true}}
		}, CardPrices.Name + " card"},
		"a webhook that a proxy answers": {func(s *surroundings) {
			s.offer.Rails = []service.Rail{service.Card{Card: s.offer.Offer.Card, WebhookSecret: "whsec_1"}}
			s.refuse(offer.PathHookCard, http.StatusOK)
		}, LinkBroken.Name + " https://pay.example.org/v1/hook/card"},
		"a checkout that is gone": {func(s *surroundings) {
			s.answers("checkout.example.com", http.StatusGone)
		}, LinkBroken.Name + " https://checkout.example.com/pay"},
		"a page that is not served": {func(s *surroundings) {
			s.answers("example.org", http.StatusNotFound)
		}, LinkBroken.Name + " https://example.org/offer/"},
		"no running server": {func(s *surroundings) { s.Ask = away }, NotRunning.Name + " admin API"},
		"no running server, and none at the address": {func(s *surroundings) {
			delete(s.hosts, "pay.example.org")
			s.Ask = away
		}, NotRunning.Name + " admin API"},
		"a server without the offer": {func(s *surroundings) { s.server.ID = "another" }, SettingsDiffer.Name + " pay.example.org"},
		"other settings":             {func(s *surroundings) { s.server.Settings = "other" }, SettingsDiffer.Name + " pay.example.org"},
		"a demo": {func(s *surroundings) {
			s.server.Demo, s.server.Settings, s.hosts = true, "other", nil
		}, Demo.Name + " pay.example.org"},
		"another site":                  {func(s *surroundings) { s.answers("pay.example.org", http.StatusOK) }, OtherServer.Name + " pay.example.org"},
		"a webhook without its secret":  {func(s *surroundings) { s.server.WebhooksOff = []string{"card"} }, WebhookOff.Name + " card"},
		"forged deliveries":             {func(s *surroundings) { s.rail(observe.ErrUnverified) }, WebhookUnverified.Name + " card"},
		"a clock that refuses webhooks": {func(s *surroundings) { s.rail(observe.ErrClock) }, ClockWrong.Name + " card"},
		"a rail that is not read":       {func(s *surroundings) { s.rail(observe.ErrUnreachable) }, RailUnobserved.Name + " card"},
		"a ledger that is read-only": {func(s *surroundings) {
			s.server.Ledger.Writable = false
			s.rail(observe.ErrLedger)
		}, LedgerUnwritable.Name + " ledger"},
		"a ledger whose file was deleted": {func(s *surroundings) {
			s.server.Ledger.Writable, s.server.Ledger.Lost = false, "/x/ledger.db was deleted"
			s.rail(observe.ErrLedger)
		}, LedgerLost.Name + " ledger"},
		"a ledger whose file is damaged": {func(s *surroundings) {
			s.server.Ledger.Writable, s.server.Ledger.Damaged = false, "row 7 missing from index: the file is damaged"
			s.rail(observe.ErrLedger)
		}, LedgerDamaged.Name + " ledger"},
		"a payment that a facilitator refuses": {func(s *surroundings) {
			s.server.Rejections = map[string]string{"one.example": "settle HTTP 400 invalid_payload: too long"}
		}, FacilitatorFailing.Name + " one.example"},
		"a clock behind for the server": {func(s *surroundings) { s.server.Clock = -61 }, ClockWrong.Name + " clock"},
	} {
		t.Run(name, func(t *testing.T) {
			s := around(t)
			c.breaks(s)
			require.Equal(t, []string{c.want}, s.found())
		})
	}
}

// While the provider cannot be reached, the webhook is all that reports payments.
func TestWebhookUnverifiedWhileProviderIsAway(t *testing.T) {
	s := around(t)
	s.server.Rails = []operator.RailState{{Rail: "card", Error: observe.ErrUnreachable, Deliveries: observe.ErrUnverified}}
	require.Equal(t, []string{WebhookUnverified.Name + " card", RailUnobserved.Name + " card"}, s.found())
}

// The fix names only the options of the rail.
func TestRailUnobservedFix(t *testing.T) {
	for rail, want := range map[string]string{
		"card": "Check api_key, and that Stripe", "btc": "Check the endpoints of esplora. ", "usdc-137": "Check the endpoints of rpc. ", "tip-jar": "Check its option token. ",
	} {
		fix := RailUnobserved.of(rail).Fix
		require.True(t, strings.HasPrefix(fix, want), fix)
		require.True(t, strings.HasSuffix(fix, RailUnobserved.Fix), fix)
	}
}

// A price source that fails does not hide that the payments of the same rail are not read.
func TestPriceSourceDoesNotExplainRail(t *testing.T) {
	c := &check{Offer: around(t).offer, diagnosis: &diagnosis{}}
	c.addIssue(PriceSource, "btc", "kraken: unreachable")
	require.False(t, c.isExplained("btc"))
	c.addIssue(RPCFailing, "btc", "unreachable")
	require.True(t, c.isExplained("btc"))
}

// An offer below 'handle /shop/*', a narrow matcher or basic_auth is not reached by its own
// addresses, and the DNS record is right.
func TestOtherHandlerIssue(t *testing.T) {
	for name, c := range map[string]struct {
		header http.Header
		fix    string
	}{
		"of this Caddy":       {http.Header{"Server": {"Caddy"}}, OtherHandler.Fix},
		"behind its proxy":    {http.Header{"Server": {"gunicorn"}, "Via": {"1.1 Caddy"}}, OtherHandler.Fix},
		"another server":      {http.Header{"Server": {"nginx"}}, OtherServer.Fix},
		"another offer's one": {http.Header{"Server": {"Caddy"}, "Link": {`<https://checkout.example.com>; rel="payment"`}}, OtherServer.Fix},
	} {
		t.Run(name, func(t *testing.T) {
			s := around(t)
			for _, path := range []string{offer.PathDID, offer.PathSponsor} {
				s.hosts["pay.example.org"] = func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == path {
						maps.Copy(w.Header(), c.header)
						w.WriteHeader(http.StatusUnauthorized)
						return
					}
					s.own(w, r)
				}
				want := c.fix
				if path == offer.PathSponsor && want == OtherServer.Fix {
					want = HeadersCut.Fix
				}
				issues := Run(t.Context(), s.World, []Offer{s.offer}).Issues
				require.Len(t, issues, 1)
				require.Equal(t, want, issues[0].Fix)
			}
		})
	}
}

// reached is a transport that reaches a test server as pay.example.org.
type reached struct {
	*surroundings
	transport *http.Transport
}

func (r reached) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Host == "pay.example.org" {
		return r.transport.RoundTrip(request)
	}
	return r.surroundings.RoundTrip(request)
}

// Two processes that listen at one port share its connections, not its requests.
func TestSharedPortIssue(t *testing.T) {
	type connection struct{}
	for _, http2 := range []bool{false, true} {
		for others, want := range map[int64][]string{0: nil, 1: {SharedPort.Name}} {
			s, opened := around(t), atomic.Int64{}
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == offer.PathDID && r.Context().Value(connection{}).(int64)%2 == others%2 && others > 0 {
					fmt.Fprint(w, `{"id":"did:web:pay.example.org","verificationMethod":[{"id":"did:web:pay.example.org#other"}]}`)
					return
				}
				s.own(w, r)
			}))
			server.EnableHTTP2 = http2
			server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
				return context.WithValue(ctx, connection{}, opened.Add(1))
			}
			server.StartTLS()
			transport := server.Client().Transport.(*http.Transport)
			transport.TLSClientConfig.InsecureSkipVerify = true // the certificate is for other names
			transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
			}
			s.Transport = reached{s, transport}
			var codes []string
			for _, issue := range Run(t.Context(), s.World, []Offer{s.offer}).Issues {
				codes = append(codes, issue.Code)
				require.Equal(t, "4 of 8 connections to pay.example.org reach another server than the running one", issue.What)
				require.Equal(t, SharedPort.Fix, issue.Fix)
			}
			require.Equal(t, want, codes)
			server.Close()
		}
	}
}

// Instances behind one address share their keys, so only their terms tell them apart.
func TestInstancesWithDifferentTermsIssue(t *testing.T) {
	s := around(t)
	asked := 0
	s.hosts["pay.example.org"] = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == offer.PathOpenAPI {
			asked++
			fmt.Fprintf(w, `{"amount":"%d"}`, 42+asked%2)
			return
		}
		s.own(w, r)
	}
	issues := Run(t.Context(), s.World, []Offer{s.offer}).Issues
	require.Len(t, issues, 1)
	require.Equal(t, SettingsDiffer.Name, issues[0].Code)
	require.Equal(t, "https://pay.example.org/openapi.json has 2 versions on 8 connections: give all instances the same settings", issues[0].What)
}

func (s *surroundings) rail(code string) {
	s.server.Rails = []operator.RailState{{Rail: "card", Error: code}}
}

func TestCertificateInvalidIssue(t *testing.T) {
	s := around(t)
	s.Transport = failing(func(context.Context) error {
		return &tls.CertificateVerificationError{Err: errors.New("it has expired")}
	})
	require.Contains(t, s.found(), CertificateInvalid.Name+" pay.example.org")
}

func TestUpstreamChecksMoveNoMoney(t *testing.T) {
	const key = "0123456789abcdef"
	s := around(t)
	facilitator := payoffertest.NewFacilitator(t)
	facilitator.Script(payoffertest.CallProbe, payoffertest.FacilitatorReply{Status: http.StatusUnauthorized})
	s.hosts["facilitator.example.com"] = func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = strings.TrimPrefix(r.URL.Path, "/"+key)
		facilitator.ServeHTTP(w, r)
	}
	s.answers("rpc.example.com", http.StatusForbidden)
	s.usdc("https://facilitator.example.com/"+key, "https://rpc.example.com/"+key+"?key="+key)
	s.rail(observe.ErrUnreachable)
	s.server.Rails = []operator.RailState{{Rail: "usdc", Error: observe.ErrUnreachable}}

	report := Run(t.Context(), s.World, []Offer{s.offer})

	text, err := json.Marshal(report)
	require.NoError(t, err)
	require.NotContains(t, string(text), key)
	require.NotContains(t, string(text), "secret=1")
	require.Len(t, report.Issues, 2, "and not that the rail is not read")
	require.Equal(t, RPCFailing.Name, report.Issues[0].Code)
	require.Equal(t, FacilitatorFailing.Name, report.Issues[1].Code)
	require.Len(t, facilitator.Calls(payoffertest.CallProbe), 1)
	require.Empty(t, facilitator.Calls(payoffertest.CallSettle))
	require.Empty(t, facilitator.Calls(payoffertest.CallVerify))
	for _, asked := range s.asked {
		if method, at, _ := strings.Cut(asked, " "); method == http.MethodPost && strings.HasPrefix(at, "pay.example.org") {
			require.Equal(t, "pay.example.org/v1/sponsor", at)
		}
	}
}

func TestRunTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := around(t)
		s.usdc("https://facilitator.example.com", "https://rpc.example.com")
		hang := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		s.Transport = failing(hang)
		s.Ask = func(ctx context.Context) ([]operator.Diagnostics, error) { return nil, hang(ctx) }
		begun := time.Now()
		require.NotEmpty(t, s.found())
		require.LessOrEqual(t, time.Since(begun), runTimeout)
	})
}

// failing is a transport whose requests all fail.
type failing func(context.Context) error

func (f failing) RoundTrip(r *http.Request) (*http.Response, error) { return nil, f(r.Context()) }

// The page explains each code in the words of Codes, in their order. The command itself prints the fix.
func TestDocsExplainIssueCodes(t *testing.T) {
	text, err := os.ReadFile("../docs/reference/diagnostics.md")
	require.NoError(t, err)
	var rows strings.Builder
	for _, c := range Codes {
		rows.WriteString("| `" + c.Name + "` | " + c.Means + " |\n")
	}
	require.Contains(t, string(text), rows.String())
}
