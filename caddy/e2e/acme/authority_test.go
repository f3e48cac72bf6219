// Package acme runs the shipped Caddyfile with https:// addresses before a certificate authority, as it runs in public.
package acme

import (
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/letsencrypt/challtestsrv"
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/stretchr/testify/require"
)

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
	names, err := challtestsrv.New(challtestsrv.Config{DNSAddrs: []string{resolver}, Log: silent})
	require.NoError(t, err)
	names.SetDefaultDNSIPv4("127.0.0.1")
	names.SetDefaultDNSIPv6("")
	go names.Run()
	t.Cleanup(names.Shutdown)

	plain, err := strconv.Atoi(httpPort)
	require.NoError(t, err)
	tls, err := strconv.Atoi(httpsPort)
	require.NoError(t, err)
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
