package inspect

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/desk"
	"github.com/payoffer/caddy-pay-offer/payoffer/observe"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/pool"
	"github.com/payoffer/caddy-pay-offer/payoffer/service"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

// noon is the time of the tests.
var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// surroundings are a world that a test owns: who answers for each host, and what the
// running server tells.
type surroundings struct {
	t *testing.T
	World
	hosts map[string]http.HandlerFunc
	offer Offer
	// server is what the running server tells; arrivals are added by what is asked of
	// the offer's own host, unless astray.
	mu     sync.Mutex
	server desk.Inspection
	astray bool
	asked  []string // "METHOD host/path"
	told   []string // the hosts that were given the token
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
	settings := &service.Settings{Key: pool.KeyOf("test"), Offer: o}
	s := &surroundings{
		t: t, hosts: map[string]http.HandlerFunc{}, offer: Offer{Settings: settings, Links: []string{o.URL(offer.PathHumans), o.URL(offer.PathOffer)}},
		server: desk.Inspection{ID: o.ID, Settings: settings.Key.String(), Keys: []string{o.DID() + "#key"}, Ledger: desk.LedgerState{Writable: true, Free: -1}},
	}
	s.hosts["pay.example.org"] = s.own
	s.hosts["example.org"] = func(http.ResponseWriter, *http.Request) {}
	s.hosts["checkout.example.com"] = func(http.ResponseWriter, *http.Request) {}
	s.World = World{
		Transport: s,
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("203.0.113.7")}, nil
		},
		ClockAhead: func(context.Context) time.Duration { return 0 },
		Ask: func(context.Context, desk.Sounding) ([]desk.Inspection, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return []desk.Inspection{s.server}, nil
		},
		Token: strings.Repeat("0f", 16), Now: func() time.Time { return noon },
	}
	return s
}

// RoundTrip implements http.RoundTripper.
func (s *surroundings) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Host+r.URL.Path)
	if strings.Contains(fmt.Sprint(r.Header, r.URL), s.Token) && !slices.Contains(s.told, r.URL.Host) {
		s.told = append(s.told, r.URL.Host)
	}
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

// own answers as the offer does, and notes what arrives.
func (s *surroundings) own(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if !s.astray && r.Header.Get(service.HeaderSounding) == s.Token {
		s.server.Arrivals = append(s.server.Arrivals, desk.Arrival{Method: r.Method, Peer: "10.0.0.2", Counted: "198.51.100.1", Forwarded: true})
	}
	s.mu.Unlock()
	switch r.URL.Path {
	case offer.PathSponsor, offer.PathOffer:
		w.WriteHeader(http.StatusPaymentRequired)
	case offer.PathDID:
		fmt.Fprintf(w, `{"id":"did:web:pay.example.org","verificationMethod":[{"id":"did:web:pay.example.org#key"}]}`)
	default:
		tagged(w, "who is behind it", "who is behind it")
	}
}

// tagged answers a body with the entity tag of another.
func tagged(w http.ResponseWriter, body, of string) {
	sum := sha256.Sum256([]byte(of))
	w.Header().Set("Etag", `"`+base64.RawURLEncoding.EncodeToString(sum[:16])+`"`)
	fmt.Fprint(w, body)
}

// usdc adds a rail with a facilitator and an endpoint.
func (s *surroundings) usdc(facilitator, rpc string) {
	s.t.Helper()
	network, err := offer.LookupNetwork("base-sepolia")
	require.NoError(s.t, err)
	rail, err := offer.NewUSDC("usdc", network, "0x52908400098527886E0F7030069857D2E4169EE7", 42_00)
	require.NoError(s.t, err)
	s.offer.USDC = []service.USDC{{Rail: rail, Facilitators: []x402.FacilitatorConfig{{URL: facilitator}}, RPC: []string{rpc}}}
}

// found are the codes of the findings, with their subjects.
func (s *surroundings) found() (codes []string) {
	for _, f := range Run(s.t.Context(), s.World, []Offer{s.offer}).Findings {
		codes = append(codes, f.Code+" "+f.Subject)
	}
	return codes
}

func TestAWholeWorldHasNoFindings(t *testing.T) {
	s := around(t)
	report := Run(t.Context(), s.World, []Offer{s.offer})
	require.Equal(t, []Finding{}, report.Findings)
	require.Equal(t, "2026-11-23T12:00:00Z", report.CheckedAt)
	require.Len(t, report.Offers, 1)
	require.Equal(t, 2, report.Offers[0].Answers)
	require.Equal(t, len("who is behind it"), report.Offers[0].LargestBytes)
	text, err := json.Marshal(report)
	require.NoError(t, err)
	require.Contains(t, string(text), `"findings":[]`)
}

func TestEachCauseIsOneFinding(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(s *surroundings)
		want   string
	}{
		"a name without an address": {func(s *surroundings) {
			s.Resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
				if host == "example.org" {
					return []netip.Addr{netip.MustParseAddr("203.0.113.7")}, nil
				}
				return nil, &net.DNSError{IsNotFound: true}
			}
		}, DNSUnresolved + " pay.example.org"},
		"a private address among others": {func(s *surroundings) {
			s.Resolve = func(_ context.Context, host string) ([]netip.Addr, error) {
				found := []netip.Addr{netip.MustParseAddr("203.0.113.7")}
				if host == "example.org" {
					found = append(found, netip.MustParseAddr("::ffff:192.168.0.1"))
				}
				return found, nil
			}
		}, NotPublic + " example.org"},
		"nobody at the address": {func(s *surroundings) { delete(s.hosts, "pay.example.org") }, Unreachable + " pay.example.org"},
		"nobody, and a server that listens here alone": {func(s *surroundings) {
			delete(s.hosts, "pay.example.org")
			s.offer.Sites = []Site{{Listen: []string{"127.0.0.1:443", "[::1]:443"}}}
		}, LoopbackOnly + " pay.example.org"},
		"nobody, and a server that listens elsewhere too": {func(s *surroundings) {
			delete(s.hosts, "pay.example.org")
			s.offer.Sites = []Site{{Listen: []string{"127.0.0.1:443"}}, {Listen: []string{":8443"}}}
		}, Unreachable + " pay.example.org"},
		"another server": {func(s *surroundings) { s.astray = true }, OtherServer + " pay.example.org"},
		"a proxy that reaches nobody": {func(s *surroundings) {
			s.hosts["pay.example.org"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
		}, Unreachable + " pay.example.org"},
		"a site block for another host": {func(s *surroundings) {
			s.astray, s.offer.Sites = true, []Site{{Hosts: []string{"shop.example.org", "*.example.net"}}}
		}, BaseURLMismatch + " pay.example.org"},
		"a prefix": {func(s *surroundings) {
			s.astray, s.offer.Sites = true, []Site{{Hosts: []string{"*.example.org"}, Prefix: "/shop"}}
		}, PrefixStripped + " pay.example.org"},
		"a body of another length": {func(s *surroundings) {
			own := s.hosts["pay.example.org"]
			s.hosts["pay.example.org"] = func(w http.ResponseWriter, r *http.Request) {
				if own(httptest.NewRecorder(), r); r.URL.Path == offer.PathHumans {
					tagged(w, "who is behind it <script>", "who is behind it")
					return
				}
				w.WriteHeader(http.StatusPaymentRequired)
			}
		}, AnswerAltered + " https://pay.example.org/humans.txt"},
		"a link that is gone": {func(s *surroundings) {
			s.offer.Links = append(s.offer.Links, "https://pay.example.org/gone")
			own := s.hosts["pay.example.org"]
			s.hosts["pay.example.org"] = func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/gone" {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				own(w, r)
			}
		}, LinkBroken + " https://pay.example.org/gone"},
		"a checkout that is gone": {func(s *surroundings) {
			s.hosts["checkout.example.com"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }
		}, LinkBroken + " https://checkout.example.com/pay"},
		"a page that is not served": {func(s *surroundings) {
			s.hosts["example.org"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }
		}, LinkBroken + " https://example.org/offer/"},
		"no server": {func(s *surroundings) {
			s.Ask = func(context.Context, desk.Sounding) ([]desk.Inspection, error) {
				return nil, errors.New("nobody there")
			}
		}, NotRunning + " admin API"},
		"no server, and nobody at the address": {func(s *surroundings) {
			delete(s.hosts, "pay.example.org")
			s.Ask = func(context.Context, desk.Sounding) ([]desk.Inspection, error) {
				return nil, errors.New("nobody there")
			}
		}, NotRunning + " admin API"},
		"a server without the offer": {func(s *surroundings) { s.server.ID = "another" }, NotLoaded + " pay.example.org"},
		"other settings":             {func(s *surroundings) { s.server.Settings = "other" }, SettingsDiffer + " pay.example.org"},
		"a demo": {func(s *surroundings) {
			s.server.Demo, s.server.Settings = true, "other"
			s.hosts = nil
		}, PlaysDemo + " pay.example.org"},
		"a webhook without its secret": {func(s *surroundings) { s.server.Hooks = []desk.HookState{{Rail: "card", Off: true}} }, HookOff + " card"},
		"deliveries of nobody":         {func(s *surroundings) { s.rail(observe.ErrUnverified) }, HookUnverified + " card"},
		"deliveries that say nothing":  {func(s *surroundings) { s.rail(observe.ErrMalformed) }, HookMalformed + " card"},
		"a rail that is not read":      {func(s *surroundings) { s.rail(observe.ErrUnreachable) }, RailUnobserved + " card"},
		"a ledger that takes nothing": {func(s *surroundings) {
			s.server.Ledger.Writable = false
			s.rail(observe.ErrLedger)
		}, LedgerRefuses + " ledger"},
		"a ledger whose file was deleted": {func(s *surroundings) {
			s.server.Ledger.Writable, s.server.Ledger.Lost = false, "/x/ledger.db was deleted"
			s.rail(observe.ErrLedger)
		}, LedgerLost + " ledger"},
		"little room":                   {func(s *surroundings) { s.server.Ledger.Free = leastFree - 1 }, DiskLow + " ledger"},
		"a clock ahead":                 {func(s *surroundings) { s.ClockAhead = func(context.Context) time.Duration { return time.Hour } }, ClockWrong + " clock"},
		"a clock behind for the server": {func(s *surroundings) { s.server.Clock = -61 }, ClockWrong + " clock"},
	} {
		t.Run(name, func(t *testing.T) {
			s := around(t)
			c.breaks(s)
			require.Equal(t, []string{c.want}, s.found())
		})
	}
}

func (s *surroundings) rail(code string) {
	s.server.Rails = []desk.RailState{{Rail: "card", Error: code}}
}

func TestWhatIsFineIsNoFinding(t *testing.T) {
	for name, world := range map[string]func(s *surroundings){
		"another instance on a shared ledger": func(s *surroundings) { s.astray, s.server.Ledger.Shared = true, true },
		"as much room as there should be":     func(s *surroundings) { s.server.Ledger.Free = leastFree },
		"a checkout that refuses programs": func(s *surroundings) {
			s.hosts["checkout.example.com"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
		},
		"a checkout that knows GET alone": func(s *surroundings) {
			s.hosts["checkout.example.com"] = func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodHead {
					w.WriteHeader(http.StatusNotImplemented)
				}
			}
		},
		"one failure by chance": func(s *surroundings) {
			own, once := s.hosts["pay.example.org"], sync.Once{}
			s.hosts["pay.example.org"] = func(w http.ResponseWriter, r *http.Request) {
				failed := false
				if r.URL.Path == offer.PathOffer {
					once.Do(func() { failed = true })
				}
				if failed {
					w.WriteHeader(http.StatusBadGateway)
					return
				}
				own(w, r)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := around(t)
			world(s)
			require.Empty(t, s.found())
		})
	}
	t.Run("an instance of others on a shared ledger", func(t *testing.T) {
		s := around(t)
		s.astray, s.server.Ledger.Shared, s.server.Keys = true, true, []string{"did:web:pay.example.org#another"}
		require.Equal(t, []string{OtherServer + " pay.example.org"}, s.found())
	})
}

func TestAProxyHidesAddressesWhereItsOwnIsCounted(t *testing.T) {
	for name, c := range map[string]struct {
		arrival desk.Arrival
		hidden  bool
	}{
		"nobody between":                        {desk.Arrival{Peer: "198.51.100.1", Counted: "198.51.100.1", Encrypted: true}, false},
		"a router that changes addresses":       {desk.Arrival{Peer: "192.168.0.1", Counted: "192.168.0.1", Encrypted: true}, false},
		"a proxy that is trusted":               {desk.Arrival{Peer: "10.0.0.2", Counted: "198.51.100.1", Forwarded: true}, false},
		"one that is not":                       {desk.Arrival{Peer: "10.0.0.2", Counted: "10.0.0.2", Forwarded: true}, true},
		"one that is not, encrypted":            {desk.Arrival{Peer: "10.0.0.2", Counted: "10.0.0.2", Forwarded: true, Encrypted: true}, true},
		"one that says nothing and ends TLS":    {desk.Arrival{Peer: "10.0.0.2", Counted: "10.0.0.2"}, true},
		"one that was asked by its own machine": {desk.Arrival{Peer: "127.0.0.1", Counted: "127.0.0.1", Forwarded: true, Itself: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := around(t)
			one := &inspection{look: &look{World: s.World}, Offer: s.offer}
			one.addresses([]desk.Arrival{c.arrival})
			require.Equal(t, c.hidden, len(one.findings) == 1)
		})
	}
}

// Whoever has the token can say that requests arrived which hide a proxy, or show one.
func TestTheTokenIsToldToTheHostOfBaseURLAlone(t *testing.T) {
	away := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://elsewhere.example.org/", http.StatusTemporaryRedirect)
	}
	for name, c := range map[string]struct {
		world func(s *surroundings)
		told  []string
	}{
		"a site on a host of its own": {func(*surroundings) {}, []string{"pay.example.org"}},
		"a site on the same host":     {func(s *surroundings) { s.offer.Offer.SiteURL = s.offer.Offer.BaseURL }, []string{"pay.example.org"}},
		"a site on another port": {func(s *surroundings) {
			s.offer.Offer.SiteURL = "https://pay.example.org:8443"
			s.hosts["pay.example.org:8443"] = s.hosts["example.org"]
		}, []string{"pay.example.org"}},
		"redirects": {func(s *surroundings) {
			s.hosts["pay.example.org"], s.hosts["example.org"], s.hosts["checkout.example.com"] = away, away, away
		}, []string{"pay.example.org"}},
		"nobody at base_url": {func(s *surroundings) { delete(s.hosts, "pay.example.org") }, []string{"pay.example.org"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := around(t)
			s.usdc("https://facilitator.example.com", "https://rpc.example.com")
			c.world(s)
			s.found()
			require.Equal(t, c.told, s.told)
			require.Greater(t, len(s.asked), 4)
		})
	}
}

func TestACertificateIsOldWhenASixthOfItsLifeIsLeft(t *testing.T) {
	for left, old := range map[time.Duration]bool{16 * time.Hour: false, 14 * time.Hour: true, -time.Hour: true} {
		s := around(t)
		one := &inspection{look: &look{World: s.World}, Offer: s.offer}
		leaf := &x509.Certificate{NotBefore: noon.Add(left - 90*time.Hour), NotAfter: noon.Add(left)}
		one.certificate("https://pay.example.org", answer{tls: &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}})
		require.Equal(t, old, len(one.findings) == 1, left)
	}
}

func TestUpstreamsAreAskedForNothingThatMovesMoneyAndTheirKeysAreNotTold(t *testing.T) {
	const key = "0123456789abcdef"
	s := around(t)
	facilitator := payoffertest.NewFacilitator(t)
	facilitator.Script(payoffertest.CallProbe, payoffertest.FacilitatorReply{Status: http.StatusUnauthorized})
	s.hosts["facilitator.example.com"] = func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = strings.TrimPrefix(r.URL.Path, "/"+key)
		facilitator.ServeHTTP(w, r)
	}
	s.hosts["rpc.example.com"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }
	s.usdc("https://facilitator.example.com/"+key, "https://rpc.example.com/"+key+"?key="+key)
	s.rail(observe.ErrUnreachable)
	s.server.Rails[0].Rail = "usdc"

	report := Run(t.Context(), s.World, []Offer{s.offer})

	text, err := json.Marshal(report)
	require.NoError(t, err)
	require.NotContains(t, string(text), key)
	require.NotContains(t, string(text), "secret=1")
	var codes []string
	for _, f := range report.Findings {
		codes = append(codes, f.Code)
	}
	require.Equal(t, []string{RPCFailing, KeyRefused}, codes, "and not that the rail is not read")
	require.Len(t, facilitator.Calls(payoffertest.CallProbe), 1)
	require.Empty(t, facilitator.Calls(payoffertest.CallSettle))
	require.Empty(t, facilitator.Calls(payoffertest.CallVerify))
	for _, asked := range s.asked {
		if method, at, _ := strings.Cut(asked, " "); method == http.MethodPost && strings.HasPrefix(at, "pay.example.org") {
			require.Equal(t, "pay.example.org/v1/sponsor", at)
		}
	}
}

func TestNothingThatHangsHoldsAnInspection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := around(t)
		s.usdc("https://facilitator.example.com", "https://rpc.example.com")
		hang := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		s.Transport = hanging(hang)
		s.ClockAhead = func(ctx context.Context) time.Duration {
			_ = hang(ctx)
			return 0
		}
		begun := time.Now()
		require.NotEmpty(t, s.found())
		require.LessOrEqual(t, time.Since(begun), patience)
		s.Resolve = func(ctx context.Context, _ string) ([]netip.Addr, error) { return nil, hang(ctx) }
		s.Ask = func(ctx context.Context, _ desk.Sounding) ([]desk.Inspection, error) { return nil, hang(ctx) }
		begun = time.Now()
		require.NotEmpty(t, s.found())
		require.LessOrEqual(t, time.Since(begun), patience)
	})
}

type hanging func(context.Context) error

func (h hanging) RoundTrip(r *http.Request) (*http.Response, error) { return nil, h(r.Context()) }

func TestOffersWithOneBaseURLAreToldAndNotAskedFor(t *testing.T) {
	s, other := around(t), around(t)
	other.offer.Offer.ID = "another"
	report := Run(t.Context(), s.World, []Offer{s.offer, other.offer})
	require.Len(t, report.Findings, 1)
	require.Equal(t, BaseURLShared, report.Findings[0].Code)
	require.Contains(t, report.Findings[0].What, "another and pay.example.org")
	require.Empty(t, s.asked)
}

// The page says of each code what the table says, in its order, and of no other.
func TestThePageOfFindingsIsTheTable(t *testing.T) {
	text, err := os.ReadFile("../docs/findings.md")
	require.NoError(t, err)
	var told, known []string
	for _, section := range strings.Split(string(text), "\n### `")[1:] {
		name, rest, _ := strings.Cut(section, "`\n\n")
		means, rest, _ := strings.Cut(rest, "\n\nMend: ")
		told = append(told, name+"|"+means+"|"+strings.TrimSpace(rest))
	}
	for _, c := range Codes {
		known = append(known, c.Name+"|"+c.Means+"|"+c.Mend)
	}
	require.Equal(t, known, told)
	names := make(map[string]bool)
	for _, c := range Codes {
		require.Regexp(t, `^[a-z]+(-[a-z]+)*$`, c.Name)
		require.False(t, names[c.Name], c.Name)
		names[c.Name] = true
	}
	require.True(t, slices.IsSortedFunc([]string{NotRunning, DNSUnresolved, ClockWrong}, func(a, b string) int { return position(a) - position(b) }))
}
