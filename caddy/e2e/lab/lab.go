// Package lab is the common ground of the black-box tests: where things lie, and what a test needs.
package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/skip"
)

// Path returns the absolute path of a file of the repository, given relative to its root with slashes.
func Path(t testing.TB, name string) string {
	t.Helper()
	folder, err := os.Getwd()
	require.NoError(t, err)
	for {
		module, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if err == nil && strings.HasPrefix(string(module), "module github.com/payoffer/caddy-pay-offer\n") {
			return filepath.Join(folder, filepath.FromSlash(name))
		}
		parent := filepath.Dir(folder)
		require.NotEqual(t, folder, parent, "no go.mod of caddy-pay-offer above the working directory")
		folder = parent
	}
}

// RequireNode skips the test unless Node.js and the packages locked in caddy/e2e/node are installed.
func RequireNode(t testing.TB) {
	t.Helper()
	skip.Program(t, "Node.js", "node")
	RequirePackages(t, "caddy/e2e/node")
}

// RequirePackages skips the test unless the packages locked in a folder are installed. Nothing is installed here, since a
// test must not reach for the network.
func RequirePackages(t testing.TB, folder string) {
	t.Helper()
	// npm writes this file when it has installed everything.
	if _, err := os.Stat(Path(t, folder+"/node_modules/.package-lock.json")); err != nil {
		skip.Test(t, "the Node.js packages of the tests are not installed: run npm ci in "+folder)
	}
}
