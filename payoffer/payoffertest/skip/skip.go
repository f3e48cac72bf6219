// Package skip ends tests that need a program which this machine does not have.
// It imports nothing of the project, so that every package can test with it.
package skip

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Test skips the test, or fails it if PAY_OFFER_NO_SKIP is 1. If
// PAY_OFFER_SKIPPED names a file, Test appends a line to it: the first line of
// the reason, a tab and the name of the test.
func Test(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("PAY_OFFER_NO_SKIP") == "1" {
		t.Fatal(reason + ", and PAY_OFFER_NO_SKIP=1 forbids to skip")
	}
	if name := os.Getenv("PAY_OFFER_SKIPPED"); name != "" {
		file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		line, _, _ := strings.Cut(reason, "\n")
		_, err = fmt.Fprintf(file, "%s\t%s\n", line, t.Name())
		require.NoError(t, err)
		require.NoError(t, file.Close())
	}
	t.Skip(reason)
}

// Full skips the test unless FULL=1. What names the programs that it runs.
func Full(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("FULL") != "1" {
		t.Skip(what + " run with FULL=1")
	}
}

// Program returns the path of the first of some programs that is installed. The
// test is skipped if none is.
func Program(t testing.TB, title string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Test(t, title+" is not installed")
	return ""
}
