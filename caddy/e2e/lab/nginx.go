package lab

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/skip"
)

// nginxPatience is how long nginx may take to answer.
const nginxPatience = 30 * time.Second

// nginxConf is a reverse proxy as its documentation writes it, which asks several servers in turn. No directive is about
// buffers. DIR, PORT and SERVERS are filled in.
const nginxConf = `
pid DIR/nginx.pid;
error_log stderr;
events {}
http {
	access_log off;
	client_body_temp_path DIR/body;
	proxy_temp_path DIR/proxy;
	fastcgi_temp_path DIR/fastcgi;
	uwsgi_temp_path DIR/uwsgi;
	scgi_temp_path DIR/scgi;
	upstream servers {
		SERVERS
	}
	server {
		listen 127.0.0.1:PORT;
		location / {
			proxy_pass http://servers;
			proxy_set_header Host $http_host;
		}
	}
}
`

// StartNginx runs nginx as the user of the test and in one process until the test ends, in front of servers on the ports of
// upstreams, which are started afterwards.
func StartNginx(t testing.TB, port string, upstreams ...string) {
	t.Helper()
	dir := t.TempDir()
	var servers strings.Builder
	for _, upstream := range upstreams {
		servers.WriteString("server 127.0.0.1:" + upstream + " max_fails=0; ") // it is asked before they are there
	}
	conf := strings.NewReplacer("DIR", dir, "PORT", port, "SERVERS", servers.String()).Replace(nginxConf)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o600))
	command := exec.Command(RequireNginx(t), "-p", dir, "-e", "stderr", "-c", "nginx.conf", "-g", "daemon off; master_process off;")
	var log bytes.Buffer
	command.Stderr = &log
	require.NoError(t, command.Start())
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // what it says of its end is in the log
		close(ended)
	}()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		<-ended
		if t.Failed() {
			t.Logf("nginx wrote:\n%s", &log)
		}
	})
	require.Eventually(t, func() bool {
		answer, err := http.Get("http://127.0.0.1:" + port)
		if err != nil {
			return false
		}
		return answer.Body.Close() == nil
	}, nginxPatience, 20*time.Millisecond, "nginx answers, if only that there is no server behind it")
}

// RequireNginx returns the path of nginx and skips the test where it is not installed. Debian keeps it out of the PATH of
// users.
func RequireNginx(t testing.TB) string {
	t.Helper()
	return skip.Program(t, "nginx", "nginx", "/usr/sbin/nginx")
}
