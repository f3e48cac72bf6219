package postgres

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/skip"
)

// Pooled starts PgBouncer in front of the server until the end of the test, and returns dsn with its
// address. mode is its pool_mode: session, transaction or statement.
func (s *Server) Pooled(t testing.TB, dsn, mode string) string {
	t.Helper()
	program := skip.Program(t, "PgBouncer", "pgbouncer", "/usr/sbin/pgbouncer")
	folder, err := os.MkdirTemp(s.folder, "pool")
	require.NoError(t, err)
	if os.Geteuid() == 0 {
		uid, err := strconv.Atoi(s.account.Uid)
		require.NoError(t, err)
		require.NoError(t, os.Chown(folder, uid, -1))
	}
	config := filepath.Join(folder, "ini")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = host=%s user=postgres
[pgbouncer]
listen_addr =
listen_port = 5432
unix_socket_dir = %s
auth_type = any
pool_mode = %s
`, s.folder, folder, mode), 0o644))
	pooler := s.command(program, "-q", config)
	require.NoError(t, pooler.Start())
	t.Cleanup(func() {
		_ = pooler.Process.Kill()
		_ = pooler.Wait()
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("unix", filepath.Join(folder, ".s.PGSQL.5432"))
		return err == nil && conn.Close() == nil
	}, time.Minute, 10*time.Millisecond, "PgBouncer does not listen")
	u, err := url.Parse(dsn)
	require.NoError(t, err)
	query := u.Query()
	query.Set("host", folder)
	u.RawQuery = query.Encode()
	return u.String()
}
