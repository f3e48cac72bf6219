// Package postgres runs real PostgreSQL servers for tests. It imports nothing of
// what is tested, so that every package can test with it.
package postgres

import (
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/skip"
)

// Server is a PostgreSQL server with a data directory of its own. It flushes
// every commit as a real one (fsync on), into memory where there is room: that
// is as good as a disk while the machine runs, and no test cuts its power. It
// listens on a Unix socket only.
type Server struct {
	folder  string
	binary  string
	account *user.User // who it runs as
	admin   *sql.DB    // of the superuser; nil while the server is stopped
	guard   io.Closer
	ended   <-chan error
}

// Start starts a server that is stopped at the end of the test, for tests that
// stop it themselves or change its settings. A test is skipped where no server
// can be started, and fails there when PAY_OFFER_NO_SKIP=1.
func Start(t testing.TB) *Server {
	t.Helper()
	s := newServer(t)
	t.Cleanup(func() {
		_ = s.admin.Close()
		_ = s.guard.Close()
		<-s.ended
	})
	return s
}

var shared struct {
	once   sync.Once
	server *Server
}

// Shared returns the server that all tests of a binary share. It ends with the
// process, however that ends. Skipping is as for Start.
func Shared(t testing.TB) *Server {
	t.Helper()
	installed(t) // each test says by itself why it is skipped
	shared.once.Do(func() { shared.server = newServer(t) })
	require.NotNil(t, shared.server, "the shared PostgreSQL server did not start")
	return shared.server
}

func newServer(t testing.TB) *Server {
	t.Helper()
	s := installed(t)
	var err error
	// Short, for a socket's path has at most 107 bytes.
	s.folder, err = os.MkdirTemp(memory(), "pg")
	require.NoError(t, err)
	if os.Geteuid() == 0 {
		uid, err := strconv.Atoi(s.account.Uid)
		require.NoError(t, err)
		require.NoError(t, os.Chown(s.folder, uid, -1))
	}
	s.watch(t)
	s.run(t, "initdb", "--no-sync", "--encoding=UTF8", "--locale=C", "--auth=trust", "--username=postgres", "-D", s.data())
	s.Start(t)
	return s
}

// memory is a folder whose files are in memory, or empty, which stands for the
// usual one, where none has room for the servers of several test binaries.
func memory() string {
	const folder, room = "/dev/shm", 1 << 20 // KiB
	out, err := exec.Command("df", "-Pk", folder).Output()
	if err != nil {
		return ""
	}
	var size, used, free int
	_, row, _ := strings.Cut(string(out), "\n")
	if _, err := fmt.Sscanf(row, "%s %d %d %d", new(string), &size, &used, &free); err != nil || free < room {
		return ""
	}
	return folder
}

// watch starts a process that stops the server and removes its folder as soon
// as this one closes the pipe or ends in any way. Signals to the group of both
// are for this one.
func (s *Server) watch(t testing.TB) {
	t.Helper()
	guard := s.command("sh", "-c", `trap '' INT TERM HUP; cat; "$1" -D "$2" -m immediate -w stop; rm -rf "$3"`, "sh",
		filepath.Join(s.binary, "pg_ctl"), s.data(), s.folder)
	pipe, err := guard.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, guard.Start())
	ended := make(chan error, 1)
	go func() { ended <- guard.Wait() }()
	s.guard, s.ended = pipe, ended
}

// Start starts the server again after Stop and waits until it answers.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	options := fmt.Sprintf("-c listen_addresses='' -c unix_socket_directories='%s' -c max_connections=200", s.folder)
	s.run(t, "pg_ctl", "-D", s.data(), "-l", filepath.Join(s.folder, "log"), "-o", options, "-w", "start")
	var err error
	s.admin, err = sql.Open("pgx", s.url(url.Values{"default_transaction_read_only": {"off"}}))
	require.NoError(t, err)
}

// Stop ends the server at once, as a crash does.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	require.NoError(t, s.admin.Close())
	s.run(t, "pg_ctl", "-D", s.data(), "-m", "immediate", "-w", "stop")
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

func (s *Server) run(t testing.TB, program string, args ...string) {
	t.Helper()
	out, err := s.command(filepath.Join(s.binary, program), args...).CombinedOutput()
	require.NoError(t, err, "%s: %s", program, out)
}

// command runs as the server's user.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	if os.Geteuid() == 0 {
		args = append([]string{"--reuid=" + s.account.Username, "--regid=" + s.account.Username, "--clear-groups", program}, args...)
		program = "setpriv"
	}
	command := exec.Command(program, args...)
	command.Dir = s.folder
	return command
}

var schemas atomic.Int64

// DSN returns a URL of the superuser with a new, empty schema as its
// search_path.
func (s *Server) DSN(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", schemas.Add(1))
	s.Exec(t, "CREATE SCHEMA "+name)
	return s.url(url.Values{"search_path": {name}})
}

// Exec runs SQL as the superuser, also where it was made to read only.
func (s *Server) Exec(t testing.TB, script string) {
	t.Helper()
	_, err := s.admin.Exec(script)
	require.NoError(t, err, script)
}

func (s *Server) url(parameters url.Values) string {
	parameters.Set("host", s.folder)
	dsn := url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/postgres", RawQuery: parameters.Encode()}
	return dsn.String()
}

// installed returns a server that does not run yet.
func installed(t testing.TB) *Server {
	t.Helper()
	s, err := installation()
	if err != nil {
		skip.Test(t, err.Error())
	}
	return &s
}

var installation = sync.OnceValues(find)

// find looks for a server, whose programs Debian keeps out of the PATH. It runs
// each of them, because a machine can have a part of what starts a server: some
// of the programs, or no other user than root.
func find() (Server, error) {
	initdb, err := exec.LookPath("initdb")
	if err != nil {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
		if len(found) == 0 {
			return Server{}, errors.New("PostgreSQL is not installed (Debian: apt-get install postgresql)")
		}
		initdb = slices.MaxFunc(found, byVersion)
	}
	account, err := user.Current()
	if err == nil && account.Uid == "0" {
		// The server refuses to run as root.
		account, err = user.Lookup("postgres")
	}
	if err != nil {
		return Server{}, fmt.Errorf("PostgreSQL cannot be started: %w", err)
	}
	s := Server{binary: filepath.Dir(initdb), account: account, folder: "/"}
	for _, program := range []string{"initdb", "pg_ctl", "postgres"} {
		program = filepath.Join(s.binary, program)
		if out, err := s.command(program, "--version").CombinedOutput(); err != nil {
			return Server{}, fmt.Errorf("PostgreSQL cannot be started: %s: %s%w", program, out, err)
		}
	}
	return s, nil
}

// byVersion compares /usr/lib/postgresql/<version>/bin/initdb.
func byVersion(a, b string) int { return version(a) - version(b) }

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}
