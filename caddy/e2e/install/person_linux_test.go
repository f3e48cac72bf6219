package install

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

// person is an operator at a terminal, in a folder of his own.
type person struct {
	*testing.T
	folder   string
	keyboard *os.File
	command  *exec.Cmd
	shown    bytes.Buffer // all that the terminal showed
	last     string       // what it showed since the last answer
}

// sitDown starts 'caddy pay-offer init' on a terminal. Its process has that terminal as its own, so that Ctrl-C reaches it.
func sitDown(t *testing.T) *person {
	t.Helper()
	keyboard, screen := lab.OpenTerminal(t)
	p := &person{T: t, folder: t.TempDir(), keyboard: keyboard}
	p.command = exec.Command(server.Released(t), "pay-offer", "init")
	p.command.Dir = p.folder
	p.command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.folder, "TMPDIR=" + t.TempDir()}
	p.command.Stdin, p.command.Stdout, p.command.Stderr = screen, screen, screen
	p.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, p.command.Start())
	require.NoError(t, screen.Close())
	t.Cleanup(func() { _ = p.command.Process.Kill() })
	return p
}

// awaitPrompt reads until an answer is waited for, and reports whether the command has left instead.
func (p *person) awaitPrompt() (left bool) {
	p.Helper()
	p.last = ""
	b := make([]byte, 4096)
	for !strings.HasSuffix(p.last, "\n> ") {
		n, err := p.keyboard.Read(b)
		p.last += strings.ReplaceAll(string(b[:n]), "\r\n", "\n")
		p.shown.Write(b[:n])
		if errors.Is(err, syscall.EIO) || errors.Is(err, io.EOF) { // nobody has the screen open
			return true
		}
		require.NoError(p, err)
	}
	return false
}

// types an answer and the key that ends it.
func (p *person) types(answer string) {
	p.Helper()
	_, err := io.WriteString(p.keyboard, answer)
	require.NoError(p, err)
}

// answers the questions in their order. An answer before "⇒" is refused with what stands behind.
func (p *person) answers(answers ...string) {
	p.Helper()
	require.False(p, p.awaitPrompt(), p.last)
	for i, answer := range answers {
		answer, refusal, refused := strings.Cut(answer, " ⇒ ")
		p.types(answer + "\n")
		left := p.awaitPrompt()
		require.Equal(p, i == len(answers)-1, left, "after %q: %s", answer, p.last)
		_, said, _ := strings.Cut(p.last, "\n") // behind its echo
		require.Equal(p, refused, strings.HasPrefix(said, "Rejected: "), "%q: %s", answer, said)
		if refused {
			require.Contains(p, said, refusal)
		}
	}
}

// end waits for the command and returns the names of the files that it left.
func (p *person) end() (files []string, err error) {
	p.Helper()
	err = p.command.Wait()
	entries, wrong := os.ReadDir(p.folder)
	require.NoError(p, wrong)
	for _, entry := range entries {
		files = append(files, entry.Name())
	}
	return files, err
}

// file is the Caddyfile that was written.
func (p *person) file() string {
	p.Helper()
	text := lab.Must(os.ReadFile(filepath.Join(p.folder, "Caddyfile")))(p)
	return string(text)
}
