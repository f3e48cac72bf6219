package proxy

import (
	"bytes"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
)

// nginxConf is a reverse proxy as its documentation writes it. No directive is about buffers. DIR, PORT and UPSTREAM are
// filled in.
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
	server {
		listen 127.0.0.1:PORT;
		location / {
			proxy_pass http://127.0.0.1:UPSTREAM;
			proxy_set_header Host $host;
		}
	}
}
`

// startNginx runs nginx as the user of the test and in one process until the test ends, in front of a server that is
// started afterwards.
func startNginx(t *testing.T, port, upstream string) {
	t.Helper()
	dir := t.TempDir()
	conf := strings.NewReplacer("DIR", dir, "PORT", port, "UPSTREAM", upstream).Replace(nginxConf)
	require.NoError(t, writeFile(filepath.Join(dir, "nginx.conf"), conf))
	command := exec.Command(lab.RequireNginx(t), "-p", dir, "-e", "stderr", "-c", "nginx.conf", "-g", "daemon off; master_process off;")
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
	}, patience, 20*time.Millisecond, "nginx answers, if only that there is no server behind it")
}
