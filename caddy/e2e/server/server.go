// Package server builds the command of this repository and runs it as a process of its own, as its users do.
package server

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/excerpt"
)

// Deadlines, far more than the things take on a busy machine.
const (
	startDeadline = 2 * time.Minute
	stopDeadline  = time.Minute
)

// Process is a running server.
type Process struct {
	// Home is the folder that it takes for its user's, with its Caddyfile, data and configuration.
	Home string

	process *os.Process
	ended   chan error // holds how it ended, once it has
	log     bytes.Buffer
}

// Start runs the server with the given Caddyfile and environment ("NAME=value") until the test ends, and returns when it
// answers at url. It has of the test's environment only Inherited, and keeps its files in a temporary folder. Its log is kept if
// the test failed.
func Start(t testing.TB, url, caddyfile string, env ...string) *Process {
	t.Helper()
	return StartBinary(t, Released(t), url, caddyfile, env...)
}

// StartBinary is Start of another binary than that of this version.
func StartBinary(t testing.TB, binary, url, caddyfile string, env ...string) *Process {
	t.Helper()
	p := &Process{ended: make(chan error, 1)}
	command := run(t, binary, caddyfile, env)
	command.Stdout, command.Stderr = &p.log, &p.log
	require.NoError(t, command.Start())
	p.Home, p.process = command.Dir, command.Process

	go func() { p.ended <- command.Wait() }()
	t.Cleanup(func() {
		p.Terminate()
		p.Await(t)
		if t.Failed() {
			excerpt.Log(t, p.log.Bytes())
		}
	})
	waitUntilItAnswers(t, url, p.ended)
	return p
}

// Refused runs a server that must end by itself, with an error, and returns its log.
func Refused(t testing.TB, caddyfile string, env ...string) string {
	t.Helper()
	command := run(t, Released(t), caddyfile, env)
	timer := time.AfterFunc(startDeadline, func() { _ = command.Process.Kill() })
	defer timer.Stop()
	log, err := command.CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.True(t, exit.Exited(), "the server goes on:\n%s", log)
	return string(log)
}

// run is the command of a server with a home of its own.
func run(t testing.TB, binary, caddyfile string, env []string) *exec.Cmd {
	t.Helper()
	home := t.TempDir()
	config := filepath.Join(home, "Caddyfile")
	require.NoError(t, os.WriteFile(config, []byte(caddyfile), 0o600))
	command := exec.Command(binary, "run", "--config", config, "--adapter", "caddyfile")
	command.Dir = home
	command.Env = append(slices.Concat(env, Inherited()), "HOME="+home,
		"XDG_CONFIG_HOME="+filepath.Join(home, "config"), "XDG_DATA_HOME="+filepath.Join(home, "data"))
	return command
}

// Inherited is what the command gets of the test's environment: where programs are, and how often Go collects memory, which
// is a fifth of what a start takes.
func Inherited() []string { return []string{"PATH=" + os.Getenv("PATH"), "GOGC=" + os.Getenv("GOGC")} }

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

// waitUntilItAnswers returns when the start of the offer at url is over: Caddy may open its ports before the ledger, and
// ends with an error when it is asked to while it starts.
func waitUntilItAnswers(t testing.TB, url string, ended chan error) {
	t.Helper()
	client := http.Client{Timeout: startDeadline, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	defer client.CloseIdleConnections()
	deadline := time.After(startDeadline)
	for path := "/v1/received"; ; {
		answer, err := client.Get(url + path)
		if err == nil {
			_ = answer.Body.Close()
			switch answer.StatusCode {
			case http.StatusForbidden:
				path = "/v1/receipt/none" // private totals are refused at once, and this only when the ledger is open
			case http.StatusServiceUnavailable:
			default:
				return
			}
			err = errors.New(answer.Status)
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

// The command as it is released, and with the points at which a test can crash it.
var (
	released = lab.Program{Name: "caddy", Package: "./caddy", Tags: "release"}
	crashing = lab.Program{Name: "caddy-failpoints", Package: "./caddy", Tags: "release,failpoints"}
)

// Released returns the path of the command as it is released.
func Released(t testing.TB) string {
	t.Helper()
	return built(t, &released)
}

// Crashing returns the path of the command with the points at which a test can crash it.
func Crashing(t testing.TB) string {
	t.Helper()
	return built(t, &crashing)
}

func built(t testing.TB, program *lab.Program) string {
	t.Helper()
	path, output, err := program.Path(t)
	require.NoError(t, err, "%s", output)
	return path
}
