package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Program is a command that tests run, built without cgo, as releases are. It stands in bin/e2e for all packages of tests,
// so that it is linked once: go build leaves alone what is up to date. To see that takes it a second, so that it is asked once
// in a run of the whole test command, which PAY_OFFER_RUN names.
type Program struct {
	// Name is the file's name.
	Name string
	// Folder, relative to the root of the repository, is where Package is built, with Tags.
	Folder, Package, Tags string

	once   sync.Once
	output []byte
	err    error
}

// Path builds the program, once in a process, and returns its path. When that fails, the output of go build is returned
// beside the error.
func (p *Program) Path(t testing.TB) (path string, output []byte, err error) {
	t.Helper()
	path = Path(t, "bin/e2e/"+p.Name)
	p.once.Do(func() {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		defer Lock(t, filepath.Join(filepath.Dir(path), "lock"))()
		run, stamp := os.Getenv("PAY_OFFER_RUN"), path+".run"
		if before, err := os.ReadFile(stamp); err == nil && run != "" && string(before) == run {
			return
		}
		command := exec.Command("go", "build", "-ldflags", "-w -s", "-tags", p.Tags, "-o", path, p.Package)
		command.Dir = Path(t, p.Folder)
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		if p.output, p.err = command.CombinedOutput(); p.err == nil {
			p.err = os.WriteFile(stamp, []byte(run), 0o600)
		}
	})
	return path, p.output, p.err
}
