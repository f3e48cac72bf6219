// Package upgrade runs the version before beside this one, on one ledger, as it happens while instances are replaced one
// after the other.
package upgrade

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
)

// versionBefore is the last commit whose ledger has schema 5.
const versionBefore = "c9da328"

// before builds the version before from the history of this repository.
func before(t *testing.T) (binary string) {
	t.Helper()
	if os.Getenv("PAY_OFFER_NO_SKIP") != "1" {
		t.Skip("building the version before takes a minute: set PAY_OFFER_NO_SKIP=1")
	}
	root := lab.Path(t, ".")
	if err := exec.Command("git", "-C", root, "cat-file", "-e", versionBefore+"^{commit}").Run(); err != nil {
		lab.Skip(t, "the history of the repository does not reach back to the version before")
	}
	folder := t.TempDir()
	archive := filepath.Join(folder, "source.tar")
	run := func(name string, args ...string) {
		t.Helper()
		command := exec.Command(name, args...)
		command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
		command.Dir = folder
		output, err := command.CombinedOutput()
		require.NoError(t, err, "%s", output)
	}
	run("git", "-C", root, "archive", "-o", archive, versionBefore)
	run("tar", "-xf", archive)
	binary = filepath.Join(folder, "caddy-before")
	run("go", "build", "-ldflags", "-w -s", "-o", binary, "./caddy")
	return binary
}
