// Package server builds the command of this repository and runs it as a process of its own, as its users do.
package server

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
)

// Deadlines, far more than the things take on a busy machine.
const (
	startDeadline = 30 * time.Second
	stopDeadline  = 15 * time.Second
)

// Process is a running server.
type Process struct {
	process *os.Process
	ended   chan error // holds how it ended, once it has
	log     bytes.Buffer
}

// Start runs the server with the given Caddyfile and environment ("NAME=value") until the test ends, and returns when it
// answers at url. It inherits nothing but PATH and keeps its files in a temporary folder. Its log is shown if the test
// failed.
func Start(t testing.TB, url, caddyfile string, env ...string) *Process {
	t.Helper()
	home := t.TempDir()
	config := filepath.Join(home, "Caddyfile")
	require.NoError(t, os.WriteFile(config, []byte(caddyfile), 0o600))

	p := &Process{ended: make(chan error, 1)}
	command := exec.Command(released.binary(t), "run", "--config", config, "--adapter", "caddyfile")
	command.Dir = home
	command.Env = append(env, "PATH="+os.Getenv("PATH"), "HOME="+home,
		"XDG_CONFIG_HOME="+filepath.Join(home, "config"), "XDG_DATA_HOME="+filepath.Join(home, "data"))
	command.Stdout, command.Stderr = &p.log, &p.log
	require.NoError(t, command.Start())
	p.process = command.Process

	go func() { p.ended <- command.Wait() }()
	t.Cleanup(func() {
		p.Terminate()
		p.Await(t)
		if t.Failed() {
			t.Logf("The server's log:\n%s", &p.log)
		}
	})
	waitUntilItAnswers(t, url, p.ended)
	return p
}

// Pid is the process's id.
func (p *Process) Pid() int { return p.process.Pid }

// Log is everything that the process wrote. Call it after Await.
func (p *Process) Log() string { return p.log.String() }

// Terminate asks the process to leave, as service managers do, and does not wait.
func (p *Process) Terminate() { _ = p.process.Signal(syscall.SIGTERM) }

// Await waits until the process has left by itself, with success, and insists after a while.
func (p *Process) Await(t testing.TB) {
	t.Helper()
	var end error
	select {
	case end = <-p.ended:
		assert.NoError(t, end, "the server did not end in good order")
	case <-time.After(stopDeadline):
		_ = p.process.Kill()
		end = <-p.ended
		t.Errorf("the server did not stop within %v of SIGTERM", stopDeadline)
	}
	p.ended <- end
}

// waitUntilItAnswers returns when there is an answer of any status.
func waitUntilItAnswers(t testing.TB, url string, ended chan error) {
	t.Helper()
	client := http.Client{Timeout: startDeadline, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	defer client.CloseIdleConnections()
	deadline := time.After(startDeadline)
	for {
		answer, err := client.Get(url)
		if err == nil {
			_ = answer.Body.Close()
			return
		}
		select {
		case end := <-ended:
			ended <- end // for stop
			t.Fatalf("the server ended before it answered at %s: %v", url, end)
		case <-deadline:
			t.Fatalf("the server did not answer at %s within %v: %v", url, startDeadline, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// FreePort returns a TCP port of the loopback interface that nobody listens on.
func FreePort(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

// build is one build of a test run. Its folder outlives the single test, so RemoveBinary clears it away.
type build struct {
	tags   string
	once   sync.Once
	folder string
	output []byte
	err    error
}

// The command as it is released, and with the points at which a test can crash it.
var (
	released build
	crashing = build{tags: "failpoints"}
)

// binary returns the path of the command built from this repository, the way releases are built: without cgo.
func (b *build) binary(t testing.TB) string {
	t.Helper()
	root := lab.Path(t, "")
	b.once.Do(func() {
		if b.folder, b.err = os.MkdirTemp("", "pay-offer-e2e-"); b.err != nil {
			return
		}
		command := exec.Command("go", "build", "-tags", b.tags, "-o", b.folder, "./caddy")
		command.Dir = root
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		b.output, b.err = command.CombinedOutput()
	})
	require.NoError(t, b.err, "%s", b.output)
	return filepath.Join(b.folder, "caddy")
}

// Released returns the path of the command as it is released.
func Released(t testing.TB) string {
	t.Helper()
	return released.binary(t)
}

// RemoveBinary deletes what the test run built. Call it at the end of TestMain.
func RemoveBinary() {
	_ = os.RemoveAll(released.folder)
	_ = os.RemoveAll(crashing.folder)
}
