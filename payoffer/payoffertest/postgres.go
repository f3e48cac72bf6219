package payoffertest

import (
	"database/sql"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/stretchr/testify/require"
)

// noSkip is the environment variable that makes a missing server an error.
const noSkip = "PAY_OFFER_NO_SKIP"

// Postgres is a PostgreSQL server with a data directory of its own. It is
// durable as a real one (fsync on) and listens on a Unix socket only.
type Postgres struct {
	folder string
	binary string
	user   string
	guard  io.Closer
	ended  <-chan error
}

// StartPostgres starts a server that is stopped at the end of the test, for
// tests that stop it themselves or change it for all of its databases. A test
// is skipped where no server is installed, and fails there when
// PAY_OFFER_NO_SKIP=1.
func StartPostgres(t testing.TB) *Postgres {
	t.Helper()
	p := newPostgres(t)
	t.Cleanup(func() {
		_ = p.guard.Close()
		<-p.ended
	})
	return p
}

var shared struct {
	once   sync.Once
	server *Postgres
}

// SharedPostgres returns the server that all tests of a binary share. It ends
// with the process, however that ends. Skipping is as for StartPostgres.
func SharedPostgres(t testing.TB) *Postgres {
	t.Helper()
	postgresBinaries(t) // each test says by itself why it is skipped
	shared.once.Do(func() { shared.server = newPostgres(t) })
	require.NotNil(t, shared.server, "the shared PostgreSQL server did not start")
	return shared.server
}

func newPostgres(t testing.TB) *Postgres {
	t.Helper()
	p := &Postgres{binary: postgresBinaries(t)}
	account, err := user.Current()
	require.NoError(t, err)
	if account.Uid == "0" {
		// The server refuses to run as root.
		account, err = user.Lookup("postgres")
		require.NoError(t, err, "running as root, PostgreSQL needs the user postgres")
	}
	p.user = account.Username
	// Short, for a socket's path has at most 107 bytes.
	p.folder, err = os.MkdirTemp("", "pg")
	require.NoError(t, err)
	if os.Geteuid() == 0 {
		uid, err := strconv.Atoi(account.Uid)
		require.NoError(t, err)
		require.NoError(t, os.Chown(p.folder, uid, -1))
	}
	p.watch(t)
	p.run(t, "initdb", "--no-sync", "--encoding=UTF8", "--locale=C", "--auth=trust", "--username=postgres", "-D", p.data())
	p.Start(t)
	return p
}

// watch starts a process that stops the server and removes its folder as soon
// as this one closes the pipe or ends in any way.
func (p *Postgres) watch(t testing.TB) {
	t.Helper()
	guard := p.command("sh", "-c", `cat; "$1" -D "$2" -m immediate -w stop; rm -rf "$3"`, "sh",
		filepath.Join(p.binary, "pg_ctl"), p.data(), p.folder)
	pipe, err := guard.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, guard.Start())
	ended := make(chan error, 1)
	go func() { ended <- guard.Wait() }()
	p.guard, p.ended = pipe, ended
}

// Start starts the server again after Stop and waits until it answers.
func (p *Postgres) Start(t testing.TB) {
	t.Helper()
	options := fmt.Sprintf("-c listen_addresses='' -c unix_socket_directories='%s' -c max_connections=200", p.folder)
	p.run(t, "pg_ctl", "-D", p.data(), "-l", filepath.Join(p.folder, "log"), "-o", options, "-w", "start")
}

// Stop ends the server at once, as a crash does.
func (p *Postgres) Stop(t testing.TB) {
	t.Helper()
	p.run(t, "pg_ctl", "-D", p.data(), "-m", "immediate", "-w", "stop")
}

func (p *Postgres) data() string { return filepath.Join(p.folder, "data") }

func (p *Postgres) run(t testing.TB, program string, args ...string) {
	t.Helper()
	out, err := p.command(filepath.Join(p.binary, program), args...).CombinedOutput()
	require.NoError(t, err, "%s: %s", program, out)
}

// command runs as the server's user.
func (p *Postgres) command(program string, args ...string) *exec.Cmd {
	if os.Geteuid() == 0 {
		args = append([]string{"--reuid=" + p.user, "--regid=" + p.user, "--clear-groups", program}, args...)
		program = "setpriv"
	}
	command := exec.Command(program, args...)
	command.Dir = p.folder
	return command
}

var schemas atomic.Int64

// DSN returns a URL of the superuser with a new, empty schema as its
// search_path.
func (p *Postgres) DSN(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", schemas.Add(1))
	p.Exec(t, "CREATE SCHEMA "+name)
	return p.url(url.Values{"search_path": {name}})
}

// Exec runs SQL as the superuser.
func (p *Postgres) Exec(t testing.TB, script string) {
	t.Helper()
	db, err := sql.Open("pgx", p.url(url.Values{}))
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec(script)
	require.NoError(t, err, script)
}

func (p *Postgres) url(parameters url.Values) string {
	parameters.Set("host", p.folder)
	dsn := url.URL{Scheme: "postgres", User: url.User("postgres"), Path: "/postgres", RawQuery: parameters.Encode()}
	return dsn.String()
}

// postgresBinaries finds the folder of initdb and pg_ctl, which Debian keeps
// out of the PATH.
func postgresBinaries(t testing.TB) string {
	t.Helper()
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path)
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		const missing = "no PostgreSQL server is installed (Debian: apt-get install postgresql)"
		if os.Getenv(noSkip) == "1" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	return filepath.Dir(slices.MaxFunc(found, byVersion))
}

// byVersion compares /usr/lib/postgresql/<version>/bin/initdb.
func byVersion(a, b string) int { return version(a) - version(b) }

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}
