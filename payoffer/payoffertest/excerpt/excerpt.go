// Package excerpt has assertions about long texts, such as pages and logs. A failed one prints the lines around the place
// in question, not the whole text.
package excerpt

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

// around is how many bytes of a text are printed on each side.
const around = 200

// Contains fails the test now unless text contains part. It prints where the longest beginning of part is in text.
func Contains(t testing.TB, text, part string, message ...any) {
	t.Helper()
	if strings.Contains(text, part) {
		return
	}
	length := sort.Search(len(part), func(n int) bool { return !strings.Contains(text, part[:n+1]) })
	t.Fatalf("%q is not in a text of %d bytes. The text has %q here:\n%s\n%s", part, len(text), part[:length],
		cut(text, strings.Index(text, part[:length]), length), fmt.Sprint(message...))
}

// NotContains fails the test now if text contains part. It prints the first place.
func NotContains(t testing.TB, text, part string, message ...any) {
	t.Helper()
	if at := strings.Index(text, part); at >= 0 {
		t.Fatalf("%q is in a text of %d bytes, here:\n%s\n%s", part, len(text), cut(text, at, len(part)), fmt.Sprint(message...))
	}
}

// cut is length bytes of text at a place and what is around them.
func cut(text string, at, length int) string {
	from, to := max(0, at-around), min(len(text), at+length+around)
	return strings.ToValidUTF8(text[from:to], "")
}

// Log keeps the log of a failed test in a file, and prints its path and the log's last lines, without requests that were
// answered as usual.
func Log(t testing.TB, log []byte) {
	t.Helper()
	path := filepath.Join(os.TempDir(), fmt.Sprintf("pay_offer-%s-%d.log", filepath.Base(t.Name()), os.Getpid()))
	if err := os.WriteFile(path, log, 0o600); err != nil {
		path = err.Error()
	}
	var kept []string
	for line := range strings.Lines(string(log)) {
		if !strings.Contains(line, `"msg":"handled request"`) || strings.Contains(line, `"status":5`) {
			kept = append(kept, line[:min(len(line), 2*around)])
		}
	}
	t.Logf("The log is in %s. Its last lines:\n%s", path, strings.Join(kept[max(0, len(kept)-10):], "\n"))
}

// CaddyLog sends Caddy's log to a file and returns what ends the process, with the status of the tests. It prints the file's
// path if a test failed.
func CaddyLog() (exit func(status int)) {
	file, err := os.CreateTemp("", "pay_offer-*.log")
	if err != nil {
		panic(err)
	}
	os.Stderr = file // Caddy opens it again with each configuration
	return func(status int) {
		if status == 0 {
			_ = os.Remove(file.Name())
		} else {
			fmt.Println("Caddy's log is in", file.Name())
		}
		os.Exit(status)
	}
}
