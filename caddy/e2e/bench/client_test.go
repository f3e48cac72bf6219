package bench

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// request is what is sent again and again.
type request struct {
	method, path, body string
	header             http.Header
}

// bytes is the request as it goes to a host.
func (r request) bytes(host string) []byte {
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.method, r.path, host)
	if r.method != http.MethodGet {
		fmt.Fprintf(&out, "Content-Length: %d\r\n", len(r.body))
	}
	_ = r.header.Write(&out) // into memory
	out.WriteString("\r\n" + r.body)
	return []byte(out.String())
}

// lane is a connection that is kept alive. It does next to nothing for a request, so that the processors are the server's.
type lane struct {
	host   string
	conn   net.Conn
	reader *bufio.Reader
}

// openLane connects to host:port until the end of the test.
func openLane(t testing.TB, host string) *lane {
	t.Helper()
	l, err := dial(host)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.conn.Close() })
	return l
}

// dial connects to host:port on loopback.
func dial(host string) (*lane, error) {
	conn, err := net.Dial("tcp", strings.Replace(host, "localhost", "127.0.0.1", 1))
	if err != nil {
		return nil, err
	}
	return &lane{host, conn, bufio.NewReaderSize(conn, 64<<10)}, nil
}

// answer is one, whole.
type answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// ask sends a request and keeps the answer.
func (l *lane) ask(r request) (a answer, err error) {
	a.Status, err = l.exchange(r.bytes(l.host), func(response *http.Response) (err error) {
		a.Header = response.Header
		a.Body, err = io.ReadAll(response.Body)
		return err
	})
	return a, err
}

// send sends the bytes of a request and reads over the answer.
func (l *lane) send(request []byte) (status int, err error) {
	return l.exchange(request, func(response *http.Response) error {
		_, err := io.Copy(io.Discard, response.Body)
		return err
	})
}

func (l *lane) exchange(request []byte, read func(*http.Response) error) (status int, err error) {
	if _, err := l.conn.Write(request); err != nil {
		return 0, err
	}
	response, err := http.ReadResponse(l.reader, nil)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	return response.StatusCode, read(response)
}
