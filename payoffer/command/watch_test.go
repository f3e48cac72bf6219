package command

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	firstChange = `{"cursor":"7.00000000000000aa","number":3,"version":1,"rail":"transfer","receipt":"INV\u001b[2J-7","status":"confirmed","evidence":"manual",` +
		`"asset":"USD","amountAtomic":"4200","refundedAtomic":"0","amountUsd":42,"amountUsdDecimal":"42.00","change":"new; you entered it","reason":"","at":"2026-11-20T12:00:00Z"}`
	secondChange = `{"cursor":"8.00000000000000bb","number":3,"version":2,"rail":"transfer","receipt":"INV-7","status":"confirmed","evidence":"manual",` +
		`"asset":"EUR","amountAtomic":"4200","refundedAtomic":"1050","amountUsd":null,"change":"refunded from 0 EUR to 10.50 EUR; you entered a refund","reason":"half","at":"2026-11-20T12:01:00Z"}`
)

// feedServer answers one request after the other as scripted, and then none until the
// client leaves. An answer that is empty breaks the connection.
type feedServer struct {
	answers  []string
	statuses map[int]int // of answers, by their places
	mu       sync.Mutex
	asked    []string
	idle     func() // when the script is at its end
}

func (f *feedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	n := len(f.asked)
	f.asked = append(f.asked, r.URL.RequestURI())
	f.mu.Unlock()
	switch {
	case n >= len(f.answers):
		f.idle()
		<-r.Context().Done()
	case f.answers[n] == "":
		panic(http.ErrAbortHandler)
	default:
		if status := f.statuses[n]; status != 0 {
			w.WriteHeader(status)
		}
		_, _ = io.WriteString(w, f.answers[n])
	}
}

// watch runs the command until the script is at its end, as Ctrl-C would end it.
func watch(t *testing.T, s *feedServer, args ...string) (out, aside string, err error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	s.idle = stop
	server := httptest.NewServer(s)
	defer server.Close()
	command := watchCommand()
	command.SilenceUsage, command.SilenceErrors = true, true
	var printed, told bytes.Buffer
	command.SetOut(&printed)
	command.SetErr(&told)
	command.SetArgs(append(args, "--address", server.Listener.Addr().String()))
	err = command.ExecuteContext(ctx)
	return printed.String(), told.String(), err
}

func answering(cursor string, changes ...string) string {
	return `{"offer":"pay.example","cursor":"` + cursor + `","changes":[` + strings.Join(changes, ",") + `]}`
}

func TestCommandWatchPrintsNewChanges(t *testing.T) {
	s := &feedServer{answers: []string{
		answering("6.0000000000000099"), answering("6.0000000000000099"), answering("8.00000000000000bb", firstChange, secondChange),
	}}
	out, aside, err := watch(t, s, "--offer", "pay.example")
	require.NoError(t, err)
	require.Equal(t, `NUMBER  TIME                RAIL         AMOUNT           REFUNDED         STATUS     EVIDENCE  REFERENCE: CHANGE; WHY (YOUR REASON)
3       2026-11-20 12:00:00 transfer     42 USD           -                confirmed  manual    INV[2J-7: new; you entered it
3       2026-11-20 12:01:00 transfer     42 EUR           10.50 EUR        confirmed  manual    INV-7: refunded from 0 EUR to 10.50 EUR; you entered a refund (half)
`, out)
	require.Equal(t, "watching pay.example after 6.0000000000000099; stop with Ctrl-C\n", aside)
	require.Equal(t, []string{
		"/pay_offer/feed?offer=pay.example",
		"/pay_offer/feed?after=6.0000000000000099&offer=pay.example", "/pay_offer/feed?after=6.0000000000000099&offer=pay.example",
		"/pay_offer/feed?after=8.00000000000000bb&offer=pay.example",
	}, s.asked)
}

func TestCommandWatchJSONSinceCursor(t *testing.T) {
	s := &feedServer{answers: []string{answering("9.00000000000000cc"), answering("8.00000000000000bb", firstChange, secondChange)}}
	out, _, err := watch(t, s, "--json", "--since", "5.0000000000000011")
	require.NoError(t, err)
	require.Equal(t, firstChange+"\n"+secondChange+"\n", out)
	require.Equal(t, "/pay_offer/feed?after=5.0000000000000011", s.asked[1])
}

// Whatever the way in which a server is away, it is told once, and the reader goes on
// from where it was.
func TestCommandWatchReconnects(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	s := &feedServer{
		answers: []string{
			answering("6.0000000000000099"), "", `{"error":"the offers are being started"}`, `{"error":"no offer is running"}`,
			answering("7.00000000000000aa", firstChange), answering("8.00000000000000bb", secondChange),
		},
		statuses: map[int]int{2: http.StatusServiceUnavailable, 3: http.StatusNotFound}, idle: stop,
	}
	server := httptest.NewServer(s)
	defer server.Close()
	var out, aside bytes.Buffer
	w := watcher{address: server.Listener.Addr().String(), json: true, out: &out, info: &aside} // which pauses for nothing
	require.NoError(t, w.run(ctx))
	require.Equal(t, firstChange+"\n"+secondChange+"\n", out.String())
	require.Regexp(t, `^watching pay\.example .*\nwaiting for the server: .*\nthe server is back; the changes since then follow\n$`, aside.String())
	for _, asked := range s.asked[1:5] {
		require.Equal(t, "/pay_offer/feed?after=6.0000000000000099", asked)
	}
}

// A reader whose place is gone is told, and not led past what it missed.
func TestCommandWatchEndsIfCursorInvalid(t *testing.T) {
	s := &feedServer{
		answers:  []string{answering("6.0000000000000099"), `{"error":"this cursor is not valid here"}`},
		statuses: map[int]int{1: http.StatusConflict},
	}
	_, _, err := watch(t, s)
	require.EqualError(t, err, "this cursor is not valid here")
}

func TestCommandWatchNeedsServer(t *testing.T) {
	s := &feedServer{answers: []string{`{"error":"several offers are running; name one of them: a, b"}`}, statuses: map[int]int{0: http.StatusBadRequest}}
	_, _, err := watch(t, s)
	require.EqualError(t, err, "several offers are running; name one of them: a, b")
	_, err = execute(t, watchCommand(), "--address", "127.0.0.1:1")
	require.ErrorContains(t, err, "no server answers at the admin API 127.0.0.1:1")
}

func TestCommandWatchPrintsVoidedEntry(t *testing.T) {
	voided := strings.Replace(firstChange, `"status":"confirmed"`, `"status":"reversed"`, 1)
	out, _, err := watch(t, &feedServer{answers: []string{`{"offer":"shop","cursor":"6.00000000000000cc","changes":[]}`, `{"offer":"shop","cursor":"7.00000000000000aa","changes":[` + voided + `]}`}})
	require.NoError(t, err)
	require.Regexp(t, ` voided +manual `, out)
	require.NotContains(t, out, "reversed")
}
