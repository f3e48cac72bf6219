// Package demo starts the demo as a newcomer does, by go run ./caddy run, and buys there as a person in Chromium, with the
// official clients and with the command. What is run after that is built once: to see that nothing changed takes go a second.
package demo

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// clone is a running demo.
type clone struct {
	*testing.T
	service, site string
	binary        string
	// env are the variables of all its commands, and temporary is where they put what they throw away.
	env       []string
	temporary string
	command   *exec.Cmd
	log       bytes.Buffer
	read      chan struct{} // closed when the log has ended
}

// built is the command with the demo, which releases do not have.
var built = lab.Program{Name: "caddy-demo", Package: "./caddy"}

// start runs the demo on ports of its own, as a newcomer or from what is built, and returns when its offer is open. Whatever
// leaves the machine comes to proxy.
func start(t *testing.T, proxy string, newcomer bool) *clone {
	t.Helper()
	binary, output, err := built.Path(t)
	require.NoError(t, err, "%s", output)
	home := t.TempDir()
	c := &clone{
		T: t, service: "http://localhost:" + payoffertest.FreePort(t), site: "http://localhost:" + payoffertest.FreePort(t),
		binary: binary, temporary: t.TempDir(), read: make(chan struct{}),
	}
	c.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + c.temporary,
		"CADDY_ADMIN=localhost:" + payoffertest.FreePort(t), "HTTP_PROXY=" + proxy, "HTTPS_PROXY=" + proxy,
	}
	c.command = c.serve()
	if newcomer {
		c.command = exec.Command("go", append([]string{"run", "./caddy"}, c.command.Args[1:]...)...)
		c.command.Dir = lab.Path(c, ".")
		c.command.Env = append(c.env, "CGO_ENABLED=0", "GOTMPDIR="+t.TempDir(), "GOPROXY=off", "GOFLAGS=-buildvcs=false")
		for _, name := range []string{"GOCACHE", "GOMODCACHE"} {
			value, err := exec.Command("go", "env", name).Output()
			require.NoError(t, err)
			c.command.Env = append(c.command.Env, name+"="+strings.TrimSpace(string(value)))
		}
	}
	c.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := c.command.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, c.command.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-c.command.Process.Pid, syscall.SIGKILL) // of what has ended nothing is left
		if t.Failed() {
			<-c.read
			t.Logf("The demo's log:\n%s", &c.log)
		}
	})
	lines, opened := bufio.NewReader(io.TeeReader(out, &c.log)), make(chan bool, 1)
	go func() {
		defer close(c.read)
		for {
			line, err := lines.ReadString('\n')
			if err != nil || strings.Contains(line, `"the offer is open"`) {
				opened <- err == nil
				_, _ = io.Copy(io.Discard, lines)
				return
			}
		}
	}()
	require.True(t, <-opened, "the demo ended before its offer was open")
	return c
}

// serve is the command that runs the shipped Caddyfile at the ports of the clone, with other lines.
func (c *clone) serve(lines ...string) *exec.Cmd {
	c.Helper()
	text, err := os.ReadFile(lab.Path(c, "Caddyfile"))
	require.NoError(c, err)
	edited := strings.NewReplacer("http://localhost:8402", c.service, "http://localhost:8403", c.site).Replace(payoffertest.EditCaddyfile(string(text), lines...))
	file := filepath.Join(c.TempDir(), "Caddyfile")
	require.NoError(c, os.WriteFile(file, []byte(edited), 0o600))
	return c.run("run", "--config", file)
}

// run is a command of the clone.
func (c *clone) run(arguments ...string) *exec.Cmd {
	command := exec.Command(c.binary, arguments...)
	command.Env = c.env
	return command
}

// interrupt ends the demo as Ctrl+C does, and waits until it has ended.
func (c *clone) interrupt() {
	c.Helper()
	require.NoError(c, syscall.Kill(-c.command.Process.Pid, syscall.SIGINT))
	<-c.read
	_ = c.command.Wait() // go run calls every interruption a failure
	require.Contains(c, c.log.String(), `"exit_code":0`)
}

// listen is a proxy that serves nobody, and counts who connects.
func listen(t *testing.T) (address string, connections *atomic.Int32) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	connections = new(atomic.Int32)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			_ = connection.Close()
		}
	}()
	return "http://" + listener.Addr().String(), connections
}
