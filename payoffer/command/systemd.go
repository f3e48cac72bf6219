package command

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

//go:embed systemd
var units embed.FS

// installedFiles are the files of 'systemd' and where they go. A file without a source is empty.
var installedFiles = []struct {
	source, target string
	mode           fs.FileMode
}{
	{"systemd/pay-offer.service", "etc/systemd/system/pay-offer.service", 0o644},
	{"systemd/pay-offer-backup.service", "etc/systemd/system/pay-offer-backup.service", 0o644},
	{"systemd/pay-offer-backup.timer", "etc/systemd/system/pay-offer-backup.timer", 0o644},
	{"systemd/pay-offer-backup-failed.service", "etc/systemd/system/pay-offer-backup-failed.service", 0o644},
	{"systemd/as-pay-offer", "usr/local/sbin/as-pay-offer", 0o755},
	{"", "etc/pay-offer/environment", 0o600},
}

func systemdCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "systemd <root>",
		Short: "Writes the files of a systemd service, with a daily backup",
		Long: `
Writes the files of the systemd service pay-offer below a folder, which is / on
a server. It overwrites no file and starts nothing. Your own changes belong in
drop-ins ('systemctl edit pay-offer').

The service runs /usr/local/bin/caddy as the user pay-offer, with the Caddyfile
in /etc/pay-offer and the variables and secrets of /etc/pay-offer/environment.
as-pay-offer runs a command in the same way. pay-offer-backup.timer backs up
every day and keeps 14 backups.`,
		Example: "  sudo caddy pay-offer systemd /",
	}
	return setRun(cmd, func(fl caddycmd.Flags, out io.Writer) error { return installUnits(fl.Arg(0), out) })
}

// installUnits writes the files below root, and prints the path of each. If it wrote one, it prints the next steps.
func installUnits(root string, out io.Writer) error {
	written := false
	for _, file := range installedFiles {
		note := " unchanged"
		var content []byte
		if file.source != "" {
			content, _ = units.ReadFile(file.source) // embedded
		}
		path := filepath.Join(root, file.target)
		there, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			note, written = "", true
			if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
				err = create(path, content, file.mode)
			}
		case err == nil && file.source != "" && !bytes.Equal(there, content):
			err = fmt.Errorf("%s exists with other content and is not overwritten; move it away, and write your own changes by 'systemctl edit'", path)
		}
		if err == nil {
			_, err = fmt.Fprintln(out, printable(path)+note)
		}
		if err != nil {
			return err
		}
	}
	if !written {
		return nil
	}
	_, err := io.WriteString(out, nextSteps)
	return err
}

// nextSteps are what starts the service after its files are there.
const nextSteps = `Then, as root: make the user, install the program and the Caddyfile, write the secrets, check, and start. Leave out what is done:
  useradd --system --home-dir /var/lib/pay-offer --shell /usr/sbin/nologin pay-offer
  install -m 755 caddy /usr/local/bin/caddy
  install -D -m 640 -g pay-offer Caddyfile /etc/pay-offer/Caddyfile
  sudoedit /etc/pay-offer/environment
  install -d -m 700 -o pay-offer -g pay-offer /var/lib/pay-offer
  as-pay-offer caddy pay-offer check
  systemctl daemon-reload
  systemctl enable --now pay-offer pay-offer-backup.timer
If 'caddy run' took payments before, move its ledger (guide systemd). If this replaces a lost server, restore its backup before the first start: guide backup, "On a new disk or another machine".
`
