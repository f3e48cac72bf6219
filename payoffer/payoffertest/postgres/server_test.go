package postgres

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/skip"
)

// part is a folder with some of PostgreSQL's programs, which every user can run.
func part(t *testing.T, programs ...string) string {
	t.Helper()
	folder := t.TempDir()
	for parent := folder; parent != filepath.Clean(os.TempDir()); parent = filepath.Dir(parent) {
		require.NoError(t, os.Chmod(parent, 0o755))
	}
	for _, name := range programs {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"), 0o755))
	}
	return folder
}

// A test that finds a part of PostgreSQL says what is missing.
func TestIncompletePostgreSQLIsNamed(t *testing.T) {
	path := os.Getenv("PATH")
	_, err := find()
	if err != nil {
		skip.Test(t, err.Error())
	}
	for name, c := range map[string]struct{ path, want string }{
		"no pg_ctl":   {part(t, "initdb", "postgres") + ":" + path, "(?i)PostgreSQL cannot be started: .*/pg_ctl: .*no such file"},
		"no postgres": {part(t, "initdb", "pg_ctl") + ":" + path, "(?i)PostgreSQL cannot be started: .*/postgres: .*no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", c.path)
			_, err := find()
			require.Error(t, err)
			require.Regexp(t, c.want, err.Error(), "in the first line")
		})
	}
	whole := part(t, "initdb", "pg_ctl", "postgres")
	t.Run("whole", func(t *testing.T) {
		t.Setenv("PATH", whole+":"+path)
		s, err := find()
		require.NoError(t, err)
		require.Equal(t, whole, s.binary)
	})
	t.Run("nothing that starts it as another user than root", func(t *testing.T) {
		if os.Geteuid() != 0 {
			skip.Test(t, "only root starts PostgreSQL as another user")
		}
		t.Setenv("PATH", whole)
		_, err := find()
		require.ErrorContains(t, err, "setpriv")
	})
}
