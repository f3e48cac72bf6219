package site

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// Configurations of Varnish: its own, and one that stores every success for an hour, whatever Cache-Control or the cookies
// of the request say. Only Vary keeps that one from a leak.
var caches = map[string]string{
	"as installed": "",
	"greedy": `
sub vcl_recv { return (hash); }
sub vcl_backend_response {
	if (beresp.status < 400) {
		unset beresp.http.Set-Cookie;
		set beresp.ttl = 1h;
		return (deliver);
	}
}
`,
}

// startVarnish runs Varnish in front of the shop until the test ends, and returns its port.
func (s *shop) startVarnish(configuration string) string {
	s.Helper()
	program, err := exec.LookPath("varnishd")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/varnishd")
	}
	if err != nil {
		s.Skip("Varnish is not installed")
	}
	dir, port := s.TempDir(), payoffertest.FreePort(s)
	vcl := filepath.Join(dir, "default.vcl")
	text := fmt.Sprintf("vcl 4.1;\nbackend default { .host = \"127.0.0.1\"; .port = %q; }\n%s", s.port, configuration)
	require.NoError(s, os.WriteFile(vcl, []byte(text), 0o644))
	command := exec.Command(program, "-F", "-j", "none", "-n", filepath.Join(dir, "work"), "-a", "127.0.0.1:"+port, "-f", vcl, "-s", "malloc,64m")
	var log bytes.Buffer
	command.Stdout, command.Stderr = &log, &log
	require.NoError(s, command.Start())
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // how it ended is in the log
		close(ended)
	}()
	s.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		<-ended
		if s.Failed() {
			s.Logf("Varnish wrote:\n%s", &log)
		}
	})
	v := s.visitorAt(port)
	server.Eventually(s, "Varnish answers", func() bool {
		a, err := server.Do(v.client, http.MethodGet, s.base+"/v1/received", "", nil)
		return err == nil && a.Status == http.StatusOK
	})
	return port
}

// A cache between the payers and the gate gives nobody else what they paid for.
func TestACacheLeaksNoPaidContent(t *testing.T) {
	if os.Getenv("FULL") != "1" {
		t.Skip("Varnish runs with FULL=1")
	}
	for name, configuration := range caches {
		t.Run(name, func(t *testing.T) {
			s := openShop(t, `
http://site.localhost:{PORT} {
	root {ROOT}
	header /public/* Cache-Control "public, max-age=3600, s-maxage=3600"
	pay_offer_gate
	file_server
}
`, map[string]string{"a.txt": secret, "public/a.txt": secret, "b.txt": secret, "public/b.txt": secret, "index.html": secret})
			payer := s.entered("cached")
			port := s.startVarnish(configuration)
			payer.move(port)
			requests := 0
			for _, target := range []string{"/a.txt", "/public/a.txt", "/b.txt", "/public/b.txt"} {
				strangers := func() {
					t.Helper()
					for _, headers := range [][]string{
						nil, {"Cookie", "a=b"}, {"Cookie", "pay_offer_00000000=forged"}, {"Payment-Signature", "forged"}, {"Authorization", "Payment forged"},
						{"Range", "bytes=0-3"}, {"If-None-Match", "*"}, {"Accept", "text/html"}, {"Accept-Encoding", "gzip"}, {"Cache-Control", "only-if-cached"},
					} {
						for _, method := range []string{http.MethodGet, http.MethodHead} {
							a := s.visitorAt(port).send(method, target, headers...)
							require.GreaterOrEqual(t, a.Status, 400, "%s %s %v", method, target, headers)
							require.NotContains(t, a.Body, secret[:4], "%s %s %v", method, target, headers)
							requests++
						}
					}
				}
				if strings.HasSuffix(target, "a.txt") { // else the payer comes first
					strangers()
				}
				for range 3 {
					require.Equal(t, secret, payer.get(target).Body, "what strangers got does not close the gate")
				}
				_, hit, _ := strings.Cut(payer.get(target).Header.Get("X-Varnish"), " ")
				require.Equal(t, name == "greedy", hit != "", "whether Varnish stored the response")
				require.Equal(t, secret[:4], payer.get(target, "Range", "bytes=0-3").Body)
				payment := s.payment()
				agent := s.visitorAt(port)
				require.Equal(t, secret, agent.do(http.MethodGet, s.site+target, "", payment).Body)
				strangers()
				require.Equal(t, secret, payer.get(target).Body)
			}
			t.Logf("%d requests without a pass", requests)
			require.Equal(t, 4, s.charged())
		})
	}
}
