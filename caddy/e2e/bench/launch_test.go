package bench

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// launched is a server that may take any time to start, or end by itself.
type launched struct {
	pid     int
	began   time.Time
	ended   chan struct{} // closed when the process has
	process *os.Process
	log     bytes.Buffer
}

// launch starts a binary with a Caddyfile in a folder until the end of the test, and does not wait until it answers.
func launch(t testing.TB, binary, folder, caddyfile string, env ...string) *launched {
	t.Helper()
	file := filepath.Join(folder, "Caddyfile")
	require.NoError(t, os.WriteFile(file, []byte(caddyfile), 0o600))
	command := exec.Command(binary, "run", "--config", file, "--adapter", "caddyfile")
	command.Dir = folder
	command.Env = append(env, "PATH="+os.Getenv("PATH"), "HOME="+folder)
	l := &launched{ended: make(chan struct{}), began: time.Now()}
	command.Stdout, command.Stderr = &l.log, &l.log
	require.NoError(t, command.Start())
	l.process, l.pid = command.Process, command.Process.Pid
	go func() {
		_ = command.Wait() // how it ended shows in what it did not do
		close(l.ended)
	}()
	t.Cleanup(l.stop)
	return l
}

// stop asks the process to leave, and waits until it has.
func (l *launched) stop() {
	_ = l.process.Signal(syscall.SIGTERM) // it may be gone
	select {
	case <-l.ended:
	case <-time.After(time.Minute):
		_ = l.process.Kill()
		<-l.ended
	}
}

// patience is how long a start or a reload may take: who waits longer has given up.
const patience = 2 * time.Minute

// until asks again and again, until done or the process has ended; false is never.
func (l *launched) until(done func() bool) bool {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if done() {
			return true
		}
		select {
		case <-l.ended:
			return false
		default:
		}
	}
	return false
}

// opens returns a lane to a port as soon as somebody listens there, nil for never.
func (l *launched) opens(port string) (opened *lane) {
	l.until(func() bool {
		var err error
		opened, err = dial("localhost:" + port)
		return err == nil
	})
	return opened
}

// at is the lane for another host of the same server.
func (l *lane) at(host string) *lane { return &lane{host, l.conn, l.reader} }
