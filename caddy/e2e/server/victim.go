package server

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/excerpt"
)

// Victim is a server that is killed and started again on the same files.
type Victim struct {
	binary    string
	url, home string
	command   *exec.Cmd
	ended     chan struct{} // closed when the process has
	log       bytes.Buffer
	starts    int
}

// NewVictim prepares a server with the given Caddyfile that will answer at url, and starts nothing. What runs at the end
// of the test is killed then. Its log is shown if the test failed. It is built with failpoints.
func NewVictim(t testing.TB, url, caddyfile string) *Victim {
	t.Helper()
	return NewVictimOf(t, Crashing(t), url, caddyfile)
}

// NewVictimOf is NewVictim of another binary.
func NewVictimOf(t testing.TB, binary, url, caddyfile string) *Victim {
	t.Helper()
	v := &Victim{binary: binary, url: url, home: t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(v.home, "Caddyfile"), []byte(caddyfile), 0o600))
	t.Cleanup(func() {
		v.Kill()
		if t.Failed() {
			excerpt.Log(t, v.log.Bytes())
		}
	})
	return v
}

// Launch starts the process with an environment ("NAME=value") and does not wait until it answers. The one before must
// have ended.
func (v *Victim) Launch(t testing.TB, env ...string) {
	t.Helper()
	v.command = exec.Command(v.binary, "run", "--config", "Caddyfile", "--adapter", "caddyfile")
	v.command.Dir = v.home
	v.command.Env = append(slices.Concat(env, Inherited()), "HOME="+v.home,
		"XDG_CONFIG_HOME="+filepath.Join(v.home, "config"), "XDG_DATA_HOME="+filepath.Join(v.home, "data"))
	v.command.Stdout, v.command.Stderr = &v.log, &v.log
	require.NoError(t, v.command.Start())
	v.starts++
	ended := make(chan struct{})
	v.ended = ended
	go func(command *exec.Cmd) {
		_ = command.Wait() // a victim does not end well
		close(ended)
	}(v.command)
}

// Answers waits until the server answers, and reports false if it ended before that.
func (v *Victim) Answers(t testing.TB) bool {
	t.Helper()
	client := http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for deadline := time.Now().Add(startDeadline); ; {
		answer, err := client.Get(v.url)
		if err == nil {
			require.NoError(t, answer.Body.Close())
			return true
		}
		select {
		case <-v.ended:
			return false
		case <-time.After(10 * time.Millisecond):
			require.True(t, time.Now().Before(deadline), "the server did not answer at %s within %v: %v", v.url, startDeadline, err)
		}
	}
}

// Kill ends the process as a crash does, and waits until it is gone. It does nothing if none runs.
func (v *Victim) Kill() {
	if v.command != nil {
		_ = v.command.Process.Kill() // it may be gone already
		<-v.ended
	}
}

// Log is everything that its processes wrote. Call it after the last has ended.
func (v *Victim) Log() string { return v.log.String() }

// Ended is closed when the process that was launched last has ended.
func (v *Victim) Ended() <-chan struct{} { return v.ended }

// Killed reports whether the process that has ended was killed, by whomever, and did not leave by itself.
func (v *Victim) Killed() bool {
	status, ok := v.command.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Starts is how often it was launched.
func (v *Victim) Starts() int { return v.starts }
