package command

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sold answers a payment with content.
func sold(status int, contentType, content string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		settled(w, r)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(content))
	}
}

// printedJSON is the object that a run with --json prints last.
func printedJSON(t *testing.T, out string) (got struct {
	Status, Reason, Content, Transaction string
	HTTPStatus                           int
}) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(out[strings.LastIndex(out, "\n{")+1:]), &got))
	return got
}

func TestCommandPayShowsOnlyText(t *testing.T) {
	t.Setenv(keyVariable, payerKey)
	const hidden = "is not shown. Write --output <file> to get it."
	for name, c := range map[string]struct{ kind, content, shown, inJSON string }{
		"text":             {"text/plain; charset=utf-8", "One ü\n\ttwo\n", "\nOne ü\n\ttwo\n", "One ü\n\ttwo\n"},
		"JSON":             {"application/json", `{"a":1}`, "\n{\"a\":1}\n", `{"a":1}`},
		"a kind of JSON":   {"application/geo+json", `{"a":1}`, "\n{\"a\":1}\n", `{"a":1}`},
		"an image":         {"image/png", "abc", "The content (3 bytes) " + hidden, ""},
		"no type":          {"", "abc", "The content (3 bytes) " + hidden, ""},
		"an escape":        {"text/plain", "a\x1b[2Jb", "The content (6 bytes) " + hidden, ""},
		"a C1 escape":      {"text/plain", "a\u009b2Jb", "The content (6 bytes) " + hidden, ""},
		"not UTF-8":        {"text/plain", "a\xff", "The content (2 bytes) " + hidden, ""},
		"a lot of text":    {"text/plain", strings.Repeat("a", maxShown+1), "The content (65537 bytes) " + hidden, ""},
		"as much as shown": {"text/plain", strings.Repeat("a", maxShown), "\naaaa", strings.Repeat("a", maxShown)},
		"an overwriting":   {"text/plain", "not\rpaid\u202e", "\nnotpaid\n", "not\rpaid\u202e"},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := openStall(t, sold(200, c.kind, c.content))
			state := t.TempDir()
			out := must(pay(t, state, url, "--yes"))(t)
			require.Contains(t, out, c.shown)
			require.NotContains(t, out, "\x1b")
			require.NotContains(t, out, "\u009b")
			out = must(pay(t, state, url, "--yes"))(t)
			require.Contains(t, out, c.shown, "again, because it was paid")
			out = must(pay(t, state, url, "--yes", "--json"))(t)
			got := printedJSON(t, out)
			require.Equal(t, c.inJSON, got.Content)
			require.Equal(t, 200, got.HTTPStatus)
			require.NotContains(t, out, "\u009b")
		})
	}
}

func TestCommandPayWritesContentToFile(t *testing.T) {
	t.Setenv(keyVariable, payerKey)
	url, payments := openStall(t, sold(200, "image/png", "\x1b\x00new"))
	state, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("something older and longer"), 0o600))
	for range 2 {
		out := must(pay(t, state, url, "--yes", "--output", file))(t)
		require.Contains(t, out, "The content (5 bytes) is in "+file)
		require.NotContains(t, out, "\x1b")
		content := must(os.ReadFile(file))(t)
		require.Equal(t, "\x1b\x00new", string(content))
		require.NoError(t, os.Remove(file))
	}
	require.Equal(t, 1, *payments, "the second time it is that of the first payment")
}

// What cannot be written is not bought, and what is not bought changes no file.
func TestCommandPayChecksOutputFileFirst(t *testing.T) {
	t.Setenv(keyVariable, payerKey)
	url, payments := openStall(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPaymentRequired) })
	folder := t.TempDir()
	for _, file := range []string{folder, filepath.Join(folder, "no", "file")} {
		out, err := pay(t, t.TempDir(), url, "--yes", "--output", file)
		require.ErrorContains(t, err, "nothing was sent, because --output cannot be written")
		require.Empty(t, out)
	}
	require.Zero(t, *payments)

	old, file := filepath.Join(folder, "old"), filepath.Join(folder, "new")
	require.NoError(t, os.WriteFile(old, []byte("old"), 0o600))
	for _, name := range []string{old, file} {
		require.ErrorContains(t, errorOf(pay(t, t.TempDir(), url, "--yes", "--output", name)), "the seller refused")
	}
	require.Equal(t, 2, *payments)
	content := must(os.ReadFile(old))(t)
	require.Equal(t, "old", string(content))
	require.NoFileExists(t, file)
}

// The folder of the file vanishes while the seller answers.
func TestCommandPayKeepsUnwrittenContent(t *testing.T) {
	t.Setenv(keyVariable, payerKey)
	folder, state := filepath.Join(t.TempDir(), "folder"), t.TempDir()
	require.NoError(t, os.Mkdir(folder, 0o700))
	url, payments := openStall(t, func(w http.ResponseWriter, r *http.Request) {
		_ = os.Remove(folder)
		sold(200, "text/plain", "bought")(w, r)
	})
	out, err := pay(t, state, url, "--yes", "--output", filepath.Join(folder, "file"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "paid, but the content is not delivered")
	require.ErrorContains(t, err, "without --new, with another --output")
	require.Contains(t, out, "Paid 42 USDC")
	require.Equal(t, 1, exitStatus(err))

	file := filepath.Join(t.TempDir(), "file")
	must(pay(t, state, url, "--yes", "-o", file))(t)
	content := must(os.ReadFile(file))(t)
	require.Equal(t, "bought", string(content))
	require.Equal(t, 1, *payments)
}

// A gate charges before the application answers.
func TestCommandPayReportsChargedRefusal(t *testing.T) {
	t.Setenv(keyVariable, payerKey)
	for _, status := range []int{http.StatusNotFound, http.StatusServiceUnavailable} {
		url, payments := openStall(t, sold(status, "text/plain", "sorry"))
		state := t.TempDir()
		for range 2 {
			out := must(pay(t, state, url, "--yes", "--json"))(t)
			require.Contains(t, out, "Paid 42 USDC")
			require.Contains(t, out, "https://basescan.org/tx/0x1111")
			require.Contains(t, out, "the payment was taken, and the answer is status ")
			require.NotContains(t, out, "not paid")
			got := printedJSON(t, out)
			require.Equal(t, status, got.HTTPStatus)
			require.Equal(t, "paid", got.Status)
			require.Equal(t, "sorry", got.Content)
			require.NotEmpty(t, got.Transaction)
		}
		require.Equal(t, 1, *payments)
	}
}

// What was bought by one method is not given for another one.
func TestCommandPayKeepsHTTPMethodsSeparate(t *testing.T) {
	t.Setenv(keyVariable, payerKey)
	url, payments := openStall(t, sold(200, "text/plain", "by GET"))
	state := t.TempDir()
	must(pay(t, state, url, "--yes"))(t)
	for _, same := range [][]string{nil, {"--method", "get"}} {
		out := must(pay(t, state, append(same, url, "--yes")...))(t)
		require.Contains(t, out, "This was paid before")
	}
	out, err := pay(t, state, url, "--yes", "--method", "POST", "--json")
	require.ErrorContains(t, err, "not paid: this URL was paid before by GET")
	got := printedJSON(t, out)
	require.Equal(t, "not_paid", got.Status)
	require.Empty(t, got.Content)
	require.Equal(t, 1, *payments)
	must(pay(t, state, url, "--yes", "--method", "POST", "--new"))(t)
	require.Equal(t, 2, *payments)
}

func TestCommandPayTriesPOSTAfterGET(t *testing.T) {
	t.Setenv(keyVariable, payerKey)
	stall, _ := openStall(t, settled)
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked = append(asked, r.Method); r.Method == http.MethodPost {
			http.Redirect(w, r, stall, http.StatusTemporaryRedirect)
		}
	}))
	t.Cleanup(server.Close)
	require.ErrorContains(t, errorOf(pay(t, t.TempDir(), server.URL, "--yes")), "the URL redirects")
	require.Equal(t, []string{"GET", "POST"}, asked)
}
