package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
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
	l := lab.Must(dial(host))(t)
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

// side is a process that is compared with others.
type side struct {
	name, host string
	pid        int
	lanes      []*lane
}

// newSide opens the lanes to a process that listens on host.
func newSide(t testing.TB, name, host string, pid, lanes int) *side {
	t.Helper()
	s := &side{name: name, host: host, pid: pid}
	for range lanes {
		s.lanes = append(s.lanes, openLane(t, host))
	}
	return s
}

// ask is the answer to a request.
func (s *side) ask(t testing.TB, r request) answer {
	t.Helper()
	a, err := s.lanes[0].ask(r)
	require.NoError(t, err, "%s: %s %s", s.name, r.method, r.path)
	return a
}

// cost is the processor time in microseconds that the process spends on one of a number of equal requests.
func (s *side) cost(t testing.TB, r request, status, count int) float64 {
	t.Helper()
	sent := r.bytes(s.host)
	before := processorTime(t, s.pid)
	var sending sync.WaitGroup
	failed := make([]error, len(s.lanes))
	for i, l := range s.lanes {
		sending.Go(func() {
			for range count / len(s.lanes) {
				got, err := l.send(sent)
				if err == nil && got != status {
					err = fmt.Errorf("status %d", got)
				}
				if failed[i] = err; err != nil {
					return
				}
			}
		})
	}
	sending.Wait()
	spent := processorTime(t, s.pid) - before
	for _, err := range failed {
		require.NoError(t, err, "%s: %s %s", s.name, r.method, r.path)
	}
	return float64(spent.Nanoseconds()) / 1000 / float64(count/len(s.lanes)*len(s.lanes))
}

// takeTurns measures every side once a round, in turns forwards and backwards, after a round that does not count. It returns
// the numbers of each side by round.
func takeTurns(sides int, measure func(side int) float64) [][]float64 {
	measured := make([][]float64, sides)
	for round := range *rounds + 1 {
		for i := range sides {
			if round%2 == 1 {
				i = sides - 1 - i
			}
			if number := measure(i); round > 0 {
				measured[i] = append(measured[i], number)
			}
		}
	}
	return measured
}

// costs is what one of equal requests costs each side, by round. A round is many short turns: what else the machine does
// falls on all sides alike.
func costs(t testing.TB, r request, status int, sides ...*side) [][]float64 {
	t.Helper()
	const turns, requests = 16, 250
	byRound := make([][]float64, len(sides))
	for round := range *rounds + 1 {
		sums := make([]float64, len(sides))
		for turn := range turns {
			for i := range sides {
				i = (i + turn) % len(sides)
				sums[i] += sides[i].cost(t, r, status, requests) / turns
			}
		}
		if round == 0 {
			continue // of what is done once
		}
		for i, sum := range sums {
			byRound[i] = append(byRound[i], sum)
		}
	}
	return byRound
}

// caddyfile is a server with one site. In braces and capitals stands what is filled in.
const caddyfile = `{
	admin off
	persist_config off
	default_bind 127.0.0.1
	storage file_system {DIR}
	{GLOBAL}
}
http://localhost:{PORT} {
	{SITE}
	respond 404
}
`

// startCaddy runs a binary with a site, and what it has in the global block.
func startCaddy(t testing.TB, binary, name, global, site string, lanes int, env ...string) *side {
	t.Helper()
	port := payoffertest.FreePort(t)
	host := "localhost:" + port
	config := strings.NewReplacer("{GLOBAL}", global, "{SITE}", site).Replace(caddyfile)
	config = strings.NewReplacer("{DIR}", t.TempDir(), "{PORT}", port, "{HOST}", host).Replace(config)
	process := server.StartBinary(t, binary, "http://"+host, config, env...)
	return newSide(t, name, host, process.Pid(), lanes)
}

var bareCaddy = lab.Program{Name: "caddy-bare", Package: "./caddy/bare", Tags: "release"}

// startBare runs Caddy with the handler that writes answers, by method and path, and does nothing else.
func startBare(t testing.TB, answers map[string]answer, lanes int) *side {
	t.Helper()
	binary, output, err := bareCaddy.Path(t)
	require.NoError(t, err, "%s", output)
	file := filepath.Join(t.TempDir(), "answers.json")
	data := lab.Must(json.Marshal(answers))(t)
	require.NoError(t, os.WriteFile(file, data, 0o600))
	return startCaddy(t, binary, "bare Caddy handler", "", "bare * "+file, lanes)
}

// copied is an answer as another server can write it.
func (a answer) copied() answer {
	header := a.Header.Clone()
	for _, own := range []string{"Date", "Server"} {
		header.Del(own)
	}
	return answer{a.Status, header, a.Body}
}

// requireSame checks that another side writes the same.
func requireSame(t testing.TB, want, got answer) {
	t.Helper()
	require.Equal(t, want.Status, got.Status)
	require.Equal(t, string(want.Body), string(got.Body))
	require.Equal(t, want.Header, got.copied().Header)
}

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
