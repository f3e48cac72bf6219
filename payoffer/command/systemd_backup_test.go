package command

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/skip"
)

// storageBackups are the commands of the unit and of the guide's script that change an export of Caddy's storage. Each runs
// them in a folder with the export and returns the error of the first one that fails.
func storageBackups(t *testing.T) map[string]func(folder string) error {
	t.Helper()
	unit := string(must(units.ReadFile("systemd/pay-offer-backup.service"))(t))
	guide := string(must(os.ReadFile("../docs/guides/existing-site.md"))(t))
	_, script, found := strings.Cut(guide, "    new=/var/lib/caddy/backup/")
	require.True(t, found)
	script, _, _ = strings.Cut("new=/var/lib/caddy/backup/"+script, "\n\n")
	script = strings.ReplaceAll(regexp.MustCompile(`(?m)^ *\$run .*\n`).ReplaceAllString(script, ""), "/var/lib/caddy/backup", ".")
	return map[string]func(folder string) error{
		"unit": func(folder string) error {
			for _, line := range regexp.MustCompile(`(?m)^ExecStart=(-?)(/usr/bin/.*)$`).FindAllStringSubmatch(unit, -1) {
				words := strings.Fields(strings.ReplaceAll(line[2], "%%", "%"))
				for i, word := range words {
					words[i] = strings.Replace(word, "/var/lib/pay-offer/backup", folder, 1)
				}
				if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil && line[1] == "" {
					return fmt.Errorf("%s: %w: %s", line[0], err, out)
				}
			}
			return nil
		},
		"guide": func(folder string) error {
			command := exec.Command("sh", "-ec", script)
			command.Dir = folder
			if out, err := command.CombinedOutput(); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		},
	}
}

// file is an entry of an export.
type file struct{ name, content string }

// exported writes an export as 'caddy storage export' does, without padding.
func exported(t *testing.T, path string, files ...file) {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o600, Size: int64(len(f.content))}))
		must(io.WriteString(w, f.content))(t)
	}
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
}

// imported reads an export as 'caddy storage import' does.
func imported(t *testing.T, path string) (files []file) {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(must(os.ReadFile(path))(t)))
	for {
		header, err := r.Next()
		if err == io.EOF {
			return files
		}
		require.NoError(t, err)
		files = append(files, file{header.Name, string(must(io.ReadAll(r))(t))})
	}
}

func text(size int) string { return strings.Repeat("k", size) }

// GNU tar cuts off the end of an archive that is not padded to its records when it deletes from it.
func TestBackupKeepsEveryKey(t *testing.T) {
	for _, program := range []string{"tar", "truncate"} {
		skip.Program(t, program, program)
	}
	for name, run := range storageBackups(t) {
		for size := range 80 {
			keys := []file{
				{"acme/acme.example/users/default/default.key", text(200 + 137*size)},
				{"certificates/acme.example/pay.example.org/pay.example.org.crt", text(3000 + 97*size)},
				{"pay_offer/qr.key", text(32)}, {"pay_offer/signing/pay.example.org.json", text(300 + size)},
			}
			ledger := []file{{"pay_offer.db", text(4096 * (1 + size%7))}, {"pay_offer.db-shm", text(32768)}, {"pay_offer.db-wal", text(1031 * size)}}
			if size%8 == 7 {
				ledger = nil // PostgreSQL
			}
			folder := t.TempDir()
			exported(t, filepath.Join(folder, "storage.tar.new"), slices.Concat(keys[:2], ledger, keys[2:])...)
			require.NoError(t, run(folder), "%s, size %d", name, size)
			require.Equal(t, keys, imported(t, filepath.Join(folder, "storage.tar")), "%s, size %d", name, size)
		}
	}
}

// The failure notifies. The copy of the day before stays.
func TestBackupWithoutKeysFails(t *testing.T) {
	for name, run := range storageBackups(t) {
		for missing, kept := range map[string]file{"qr.key": {"pay_offer/signing/a.json", "{}"}, "signing": {"pay_offer/qr.key", text(32)}} {
			folder := t.TempDir()
			exported(t, filepath.Join(folder, "storage.tar.new"), file{"pay_offer.db", text(8192)}, kept)
			require.NoError(t, os.WriteFile(filepath.Join(folder, "storage.tar"), []byte("old"), 0o600))
			require.ErrorContains(t, run(folder), missing, name)
			require.Equal(t, "old", string(must(os.ReadFile(filepath.Join(folder, "storage.tar")))(t)), name)
		}
	}
}

// With a mistake in the Caddyfile the first command fails, and the server still answers at the default address.
func TestFailedBackupIsReportedWithoutCaddyfile(t *testing.T) {
	unit := string(must(units.ReadFile("systemd/pay-offer-backup-failed.service"))(t))
	command := regexp.MustCompile(`(?m)^ExecStart=/bin/sh -c '(.*)'$`).FindStringSubmatch(unit)
	require.NotNil(t, command)
	require.NotContains(t, command[1], "'")
	for begins, want := range map[string]int{"exit 0": 1, `case "$*" in *--address*) exit 0 ;; esac; exit 1`: 2} {
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(folder+"/caddy", []byte("#!/bin/sh\necho \"$*\"\n"+begins+"\n"), 0o700))
		out, err := exec.Command("/bin/sh", "-c", strings.ReplaceAll(command[1], "/usr/local/bin/caddy", folder+"/caddy")).CombinedOutput()
		require.NoError(t, err, string(out))
		sent := strings.Split(strings.TrimSpace(string(out)), "\n")
		require.Len(t, sent, want)
		for i, line := range sent {
			require.Contains(t, line, "pay-offer announcements --test ")
			require.Contains(t, line, "--text The backup of the ledger failed")
			require.Equal(t, i == 1, strings.Contains(line, "--address localhost:2019 "))
		}
	}
}
