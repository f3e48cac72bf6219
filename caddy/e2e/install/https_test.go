package install

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/letsencrypt/challtestsrv"
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/chain"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	service = "https://pay.example.org"
	site    = "https://www.example.org"

	// patience is how long a certificate may take on a busy machine.
	patience = time.Minute
	pause    = 50 * time.Millisecond

	price         = 42_000_000 // atomic USDC
	paymentLink   = "plink_1"
	webhookSecret = "whsec_0123456789abcdef0123456789abcdef"
)

// public is a server with the Caddyfile of the image as the world sees it: its hosts have names, and the standard ports.
type public struct {
	*server.Process
	authority
	httpPort, httpsPort string
}

func start(t *testing.T, env ...string) public {
	t.Helper()
	p := public{httpPort: payoffertest.FreePort(t), httpsPort: freePort(t)}
	p.authority = startAuthority(t, p.httpPort, p.httpsPort)
	caddyfile := lab.Must(os.ReadFile(lab.Path(t, "caddy/package/Caddyfile")))(t)
	// By default, Caddy looks every ten minutes for certificates to renew.
	p.Process = server.Start(t, "http://127.0.0.1:"+p.httpPort, string(caddyfile), append(env,
		"BASE_URL="+service, "SITE_URL="+site, "CADDY_ADMIN=localhost:"+payoffertest.FreePort(t), "SSL_CERT_FILE="+p.web,
		"CADDY_GLOBAL_OPTIONS=default_bind 127.0.0.1\nhttp_port "+p.httpPort+"\nhttps_port "+p.httpsPort+"\nacme_ca "+p.directory+
			"\nemail operator@example.org\nrenew_interval 1s\ngrace_period 1s",
		"CARD_URL=https://checkout.example.org/42")...)
	return p
}

// dial finds every host on this machine, and the standard ports where the server has them.
func (p public) dial(ctx context.Context, network, address string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, "127.0.0.1:"+map[string]string{"80": p.httpPort, "443": p.httpsPort}[port])
}

// clients speak one version of HTTP each, and trust the authority alone.
func (p public) clients(t *testing.T) map[string]*http.Client {
	t.Helper()
	first := &http.Transport{DialContext: p.dial, TLSClientConfig: &tls.Config{RootCAs: p.roots, NextProtos: []string{"http/1.1"}}}
	second := &http.Transport{DialContext: p.dial, TLSClientConfig: &tls.Config{RootCAs: p.roots}, ForceAttemptHTTP2: true}
	third, _ := p.http3(t)
	t.Cleanup(func() {
		first.CloseIdleConnections()
		second.CloseIdleConnections()
	})
	clients := map[string]*http.Client{}
	for version, transport := range map[string]http.RoundTripper{"HTTP/1.1": first, "HTTP/2.0": second, "HTTP/3.0": third} {
		clients[version] = &http.Client{Transport: transport, CheckRedirect: server.Stay}
	}
	return clients
}

// http3 speaks HTTP/3 through a socket of its own.
func (p public) http3(t *testing.T) (*http3.Transport, net.PacketConn) {
	t.Helper()
	socket := lab.Must(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	server := lab.Must(net.ResolveUDPAddr("udp", "127.0.0.1:"+p.httpsPort))(t)
	link := &quic.Transport{Conn: socket}
	transport := &http3.Transport{
		TLSClientConfig: &tls.Config{RootCAs: p.roots},
		Dial: func(ctx context.Context, _ string, config *tls.Config, options *quic.Config) (*quic.Conn, error) {
			return link.DialEarly(ctx, server, config, options)
		},
	}
	t.Cleanup(func() {
		_ = transport.Close()
		_ = socket.Close()
	})
	return transport, socket
}

// serial is the number of the certificate that a host shows now, once it has one that the authority signed.
func (p public) serial(host string) (string, error) {
	connection, err := tls.Dial("tcp", "127.0.0.1:"+p.httpsPort, &tls.Config{RootCAs: p.roots, ServerName: host})
	if err != nil {
		return "", err
	}
	defer connection.Close()
	return connection.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}

// certified waits until both hosts have certificates, other than those of before, and returns them.
func (p public) certified(t *testing.T, before map[string]string) map[string]string {
	t.Helper()
	serials := map[string]string{}
	for _, origin := range []string{service, site} {
		host := strings.TrimPrefix(origin, "https://")
		var last error
		require.Eventually(t, func() bool {
			serials[host], last = p.serial(host)
			return last == nil && serials[host] != before[host]
		}, patience, pause, "a certificate for %s", host)
	}
	return serials
}

func ask(t *testing.T, client *http.Client, method, url string, header http.Header, body string) (*http.Response, string) {
	t.Helper()
	request := lab.Must(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))(t)
	for name, values := range header {
		request.Header[name] = values
	}
	answer := lab.Must(client.Do(request))(t)
	defer answer.Body.Close()
	text := lab.Must(io.ReadAll(answer.Body))(t)
	return answer, string(text)
}

// The variables alone make the Caddyfile of the image a public server with certificates, and money comes in over every version.
func TestPackagedCaddyfileServesHTTPS(t *testing.T) {
	facilitator := payoffertest.NewFacilitator(t)
	payee := chain.NewAddress(t)
	p := start(t, "PAY_OFFER_OPTIONS=testnet\nusdc base-sepolia "+payee.Hex()+" {\nfacilitator "+facilitator.URL()+"\nrpc off\n}",
		"CARD_PAYMENT_LINK="+paymentLink, "CARD_WEBHOOK_SECRET="+webhookSecret)
	first := p.certified(t, nil)

	for version, client := range p.clients(t) {
		t.Run(version, func(t *testing.T) {
			for _, origin := range []string{service + "/v1/pay", site + "/offer/"} {
				page, body := ask(t, client, http.MethodGet, origin, http.Header{"Accept": {"text/html"}}, "")
				require.Equal(t, http.StatusOK, page.StatusCode, body)
				require.Equal(t, version, page.Proto)
				require.Contains(t, body, "</html>")
			}

			quote, _ := ask(t, client, http.MethodPost, service+"/v1/sponsor", nil, "")
			require.Equal(t, http.StatusPaymentRequired, quote.StatusCode)
			paid, receipt := ask(t, client, http.MethodPost, service+"/v1/sponsor", payment(t, quote), "")
			require.Equal(t, http.StatusOK, paid.StatusCode, receipt)
			require.NotEmpty(t, paid.Header.Get("PAYMENT-RESPONSE"))

			event, header := server.CardPaid(strings.NewReplacer("/", "", ".", "").Replace(version), 4200, webhookSecret)
			taken, body := ask(t, client, http.MethodPost, service+"/v1/hook/card", header, event)
			require.Equal(t, http.StatusOK, taken.StatusCode, body)
		})
	}
	plain := p.clients(t)["HTTP/1.1"]
	_, body := ask(t, plain, http.MethodGet, service+"/v1/received", http.Header{"Accept": {"application/json"}}, "")
	var report struct{ ReceivedUSD json.Number }
	require.NoError(t, json.Unmarshal([]byte(body), &report))
	require.Equal(t, "126", report.ReceivedUSD.String(), "a checkout over each version: %s", body)

	for _, origin := range []string{service, site} {
		answer, _ := ask(t, plain, http.MethodGet, strings.Replace(origin, "https:", "http:", 1)+"/v1/pay?lang=de", nil, "")
		require.Equal(t, http.StatusPermanentRedirect, answer.StatusCode)
		require.Equal(t, origin+"/v1/pay?lang=de", answer.Header.Get("Location"))
	}

	p.certified(t, first)

	p.vanish(t)
	p.Terminate()
	p.Await(t) // which waits for less than an idle connection of HTTP/3 takes to end by itself
}

// payment is what a payer signs for the first of the terms of a quote.
func payment(t *testing.T, quote *http.Response) http.Header {
	t.Helper()
	header := lab.Must(base64.StdEncoding.DecodeString(quote.Header.Get("PAYMENT-REQUIRED")))(t)
	var terms struct {
		Resource json.RawMessage
		Accepts  []json.RawMessage
	}
	require.NoError(t, json.Unmarshal(header, &terms))
	var accepted struct{ PayTo string }
	require.NoError(t, json.Unmarshal(terms.Accepts[0], &accepted))
	payer := chain.NewKey(t)
	a := chain.NewAuthorization(t, chain.Address(payer), common.HexToAddress(accepted.PayTo), price)
	payload := a.Payload(a.Sign(t, payer))
	payload["resource"], payload["accepted"] = terms.Resource, terms.Accepts[0]
	return chain.Payment(t, payload)
}

// vanish asks over HTTP/3 and is gone without a word, as a phone that left the network.
func (p public) vanish(t *testing.T) {
	t.Helper()
	transport, socket := p.http3(t)
	answer, body := ask(t, &http.Client{Transport: transport}, http.MethodGet, service+"/v1/quote", nil, "")
	require.Equal(t, http.StatusPaymentRequired, answer.StatusCode, body)
	require.NoError(t, socket.Close())
}

// lifetime is that of a certificate in seconds. It is renewed after two thirds of it.
const lifetime = 20

// authority is Let's Encrypt's own test authority, which finds every name on this machine.
type authority struct {
	directory string         // the address of its directory
	web       string         // the file with the certificate that its own address has
	roots     *x509.CertPool // what its clients' certificates are checked by
}

// startAuthority runs an authority that validates at these ports, until the test ends.
func startAuthority(t *testing.T, httpPort, httpsPort string) authority {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	t.Setenv("PEBBLE_WFE_NONCEREJECT", "0")
	silent := log.New(io.Discard, "", 0)

	resolver := "127.0.0.1:" + freePort(t)
	names := lab.Must(challtestsrv.New(challtestsrv.Config{DNSAddrs: []string{resolver}, Log: silent}))(t)
	names.SetDefaultDNSIPv4("127.0.0.1")
	names.SetDefaultDNSIPv6("")
	go names.Run()
	t.Cleanup(names.Shutdown)

	plain := lab.Must(strconv.Atoi(httpPort))(t)
	tls := lab.Must(strconv.Atoi(httpsPort))(t)
	store := db.NewMemoryStore()
	issuer := ca.New(silent, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {ValidityPeriod: lifetime}})
	validator := va.New(silent, plain, tls, false, resolver, store)
	front := wfe.New(silent, store, validator, issuer, nil, false, false, 1, 1)
	server := httptest.NewTLSServer(front.Handler())
	t.Cleanup(server.Close)

	a := authority{server.URL + wfe.DirectoryPath, filepath.Join(t.TempDir(), "authority.pem"), x509.NewCertPool()}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(a.web, certificate, 0o600))
	require.True(t, a.roots.AppendCertsFromPEM(issuer.GetRootCert(0).PEM()))
	return a
}

// freePort returns a port of 127.0.0.1 that is free in TCP and in UDP. It lies below those of payoffertest.FreePort, which are
// held in UDP.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		address := "127.0.0.1:" + strconv.Itoa(10_000+rand.IntN(10_000))
		packets, err := net.ListenPacket("udp4", address)
		if err != nil {
			continue
		}
		require.NoError(t, packets.Close())
		listener, err := net.Listen("tcp4", address)
		if err != nil {
			continue
		}
		require.NoError(t, listener.Close())
		_, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		return port
	}
}
