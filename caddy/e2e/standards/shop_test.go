// Package standards holds the documents of the built server against validators, resolvers, parsers and generators that
// others wrote, over TLS as in production. QR images are read by an independent decoder, and card payments by the
// processor's own library.
package standards

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/showcase"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/skip"
)

// What the operator of the shop wrote.
const (
	name        = `Offer "42" & Söhne`
	operator    = "Example & Söhne"
	description = "One fixed payment for <everything>."
	contact     = "help@example.org"
	inbox       = "bank+42@example.org"
	card        = "https://checkout.example/pay?a=1&b=2"
	tipJar      = "https://shop.example/tip?x=1&y=2"
	pack        = "https://shop.example/pack"
	payTo       = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"
	source      = "https://code.example/offer"
)

// tokens are the contracts of USDC on the shop's networks, as their issuer publishes them.
var tokens = map[string]string{
	"eip155:84532":  "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
	"eip155:421614": "0x75faf114eafb1BDbe2F0316DF893fd58CE46AA4d",
}

const caddyfile = `{
	admin off
	persist_config off
	default_bind 127.0.0.1
	pay_offer {
		ledger sqlite standards.db
	}
}
http://localhost:$SERVICE {
	redir / /v1/pay
	pay_offer {
		base_url $BASE
		site_url http://localhost:$SITE
		name ` + "`" + name + "`" + `
		operator "` + operator + `"
		description "` + description + `"
		contact ` + contact + `
		source_url ` + source + `
		tags sponsorship "open source"
		card ` + card + `
		usdc base-sepolia ` + payTo + ` {
			rpc off
		}
		$RAILS
	}
	$GATES
}
http://localhost:$SITE {
	pay_offer_page
}
`

// moreRails are all others. The smallest shop that a program can pay has none of them.
const moreRails = `usdc eip155:421614 ` + payTo + ` {
			rpc off
		}
		bitcoin tb1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq0l98cr
		bank_transfer transfer ` + inbox + `
		storefront tip-jar ` + tipJar + `
		storefront pack ` + pack

// shop is the built server behind a proxy that ends TLS, as in production.
type shop struct {
	// base is the origin of the service, site that of the page for people.
	base, site string
	// authority is the file of the certificate that clients must trust.
	authority string
	client    *http.Client
}

// validators are the programs of others that read the documents.
const validators = "validators, resolvers and generators"

// openValidated is openShop for a test that runs programs of others.
func openValidated(t *testing.T, rails string, starts ...string) *shop {
	t.Helper()
	skip.Full(t, validators)
	return openShop(t, rails, starts...)
}

// openShop starts the server. The starts of its gates may name $BASE, and $OTHER, another host.
func openShop(t *testing.T, rails string, starts ...string) *shop {
	t.Helper()
	service, site := payoffertest.FreePort(t), payoffertest.FreePort(t)
	certificate, authority := lab.NewCertificate(t, "localhost")
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(authority))
	s := &shop{
		site: "http://localhost:" + site, authority: filepath.Join(t.TempDir(), "authority.pem"),
		client: &http.Client{
			Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}},
			CheckRedirect: server.Stay,
		},
	}
	t.Cleanup(s.client.CloseIdleConnections)
	require.NoError(t, os.WriteFile(s.authority, authority, 0o600))

	proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{Transport: lab.WholeBodies, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: "localhost:" + service})
		r.Out.Host = r.In.Host
	}})
	proxy.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	proxy.StartTLS()
	t.Cleanup(proxy.Close)
	_, port, err := net.SplitHostPort(proxy.Listener.Addr().String())
	require.NoError(t, err)
	s.base = "https://localhost:" + port

	var gates strings.Builder
	for i, start := range starts {
		fmt.Fprintf(&gates, "pay_offer_gate /gated-%d/* {\nstart %s\n}\n", i, start)
	}
	text := strings.NewReplacer("$RAILS", rails, "$GATES", gates.String()).Replace(caddyfile)
	server.Start(t, "http://localhost:"+service, strings.NewReplacer(
		"$SERVICE", service, "$SITE", site, "$BASE", s.base, "$OTHER", otherHost(s)).Replace(text))
	s.awaitStart(t)
	return s
}

// awaitStart returns when the ledger and the key of the QR codes are there, which follow the first answer.
func (s *shop) awaitStart(t *testing.T) {
	t.Helper()
	server.Eventually(t, "the service has started", func() bool {
		report, _ := server.Do(s.client, http.MethodGet, s.base+"/v1/received", "", nil)
		image, _ := server.Do(s.client, http.MethodGet, s.base+"/v1/pay/card.png", "", nil)
		return report.Status == http.StatusOK && image.Status == http.StatusFound
	})
}

// ask sends a request and returns answer and body. Headers are name and value in turn.
func (s *shop) ask(t *testing.T, method, address, body string, headers ...string) server.Answer {
	t.Helper()
	header := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		header.Set(headers[i], headers[i+1])
	}
	a := lab.Must(server.Do(s.client, method, address, body, header))(t)
	return a
}

// get returns the body of a path of the service, which must answer 200.
func (s *shop) get(t *testing.T, path string) string {
	t.Helper()
	a := s.ask(t, http.MethodGet, s.base+path, "")
	require.Equal(t, http.StatusOK, a.Status, path)
	return a.Body
}

// save writes what a path answers into a file of its own folder and returns the file's path.
func (s *shop) save(t *testing.T, path, file string) string {
	t.Helper()
	saved := filepath.Join(t.TempDir(), filepath.FromSlash(file))
	require.NoError(t, os.MkdirAll(filepath.Dir(saved), 0o700))
	require.NoError(t, os.WriteFile(saved, []byte(s.get(t, path)), 0o600))
	return saved
}

// patience is how long a program may take: far more than it does on a busy machine.
const patience = 2 * time.Minute

// packages is the folder of the Node.js packages.
func packages(t *testing.T) string {
	t.Helper()
	lab.RequireNode(t)
	return lab.Path(t, "caddy/e2e/node")
}

// validate runs a script or a program of a package and reads its answer, one JSON value. The program may answer by its
// status alone, too. env are variables in the form NAME=value.
func validate(t *testing.T, into any, env []string, program string, args ...string) error {
	t.Helper()
	output, err := run(t, env, node.Newer(t), append([]string{program}, args...)...)
	if into != nil {
		require.NoError(t, json.Unmarshal(output, into), "%s", output)
	}
	return err
}

// run runs a program in the folder of the packages and returns what it wrote to standard output.
func run(t *testing.T, env []string, program string, args ...string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = packages(t)
	command.Env = append(env, "PATH="+os.Getenv("PATH"), "HOME="+t.TempDir())
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s %v wrote:\n%s", program, args, &stderr)
		}
	})
	return stdout.Bytes(), err
}

// trust lets a Node.js program trust the shop's certificate.
func (s *shop) trust() []string { return []string{"NODE_EXTRA_CA_CERTS=" + s.authority} }

// bin is the program of a package.
func bin(name string) string { return filepath.Join("node_modules", ".bin", name) }

func TestWalletParserReadsUSDCURI(t *testing.T) {
	s := openValidated(t, moreRails)
	for rail, chain := range map[string]string{"usdc": "84532", "usdc-421614": "421614"} {
		var parsed map[string]any
		require.NoError(t, validate(t, &parsed, nil, "validate-uris.mjs", strings.TrimSpace(s.get(t, "/v1/pay/"+rail+".uri"))))
		require.Equal(t, map[string]any{
			"scheme": "ethereum", "target_address": tokens["eip155:"+chain], "chain_id": chain, "function_name": "transfer",
			"parameters": map[string]any{"address": payTo, "uint256": "42000000"},
		}, parsed)
	}
}

// TestWalletParserReadsBitcoinURI asks a server in process, for without a network the built one has no rate.
func TestWalletParserReadsBitcoinURI(t *testing.T) {
	skip.Full(t, validators)
	recorder := httptest.NewRecorder()
	require.True(t, showcase.New(t, showcase.Offer(t, "https://pay.example.org")).
		Serve(recorder, httptest.NewRequest(http.MethodGet, "/v1/invoice", nil)))
	var invoice struct {
		Methods []struct{ Rail, URI, AmountAtomic string }
	}
	require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &invoice))
	for _, m := range invoice.Methods {
		if m.Rail != "btc" {
			continue
		}
		var parsed map[string]any
		require.NoError(t, validate(t, &parsed, nil, "validate-uris.mjs", m.URI))
		require.Equal(t, "45678", m.AmountAtomic)
		require.Equal(t, map[string]any{
			"address": "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq",
			"options": map[string]any{"amount": 0.00045678, "label": "Example & Söhne"},
		}, parsed)
		return
	}
	t.Fatal("the invoice has no bitcoin")
}
