package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

func ledgerCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "ledger",
		Short: "Backs up, restores or moves the ledger, or forgets lost keys",
		Long: `
backup, restore and move copy the ledger (SQLite or PostgreSQL) and verify its
sums and history. Run them as the user of the server, because the files of a
ledger are private. Only restore and move with --create make a new ledger.`,
		Example: "  caddy pay-offer ledger backup /backup/pay_offer.db",
	}, backupCommand(), restoreCommand(), moveCommand(), forgetKeysCommand())
}

func backupCommand() *cobra.Command {
	cmd := withConfigFlags(&cobra.Command{
		Use:   "backup <file or folder>",
		Short: "Copies the ledger into a new file, also while the server runs",
		Long: `
Copies the ledger into a new file, also while the server runs. With --keep the
argument is a folder: the copy gets the time as its name, and copies that were
made in the same way are deleted, except the newest ones.`,
		Example: "  caddy pay-offer ledger backup /backup/pay_offer.db\n  caddy pay-offer ledger backup --keep 14 /backup",
	}, withLedger(backup))
	cmd.Flags().Int("keep", 0, "Write into a folder, and keep this many copies there")
	return cmd
}

// dated is the form of the name of a copy by --keep: its second in UTC.
const dated = "pay_offer-20060102T150405Z.db"

func backup(ctx context.Context, configured *ledger.Ledger, _ plugin, fl caddycmd.Flags, out io.Writer) error {
	path, keep := fl.Arg(0), fl.Int("keep")
	if fl.Changed("keep") {
		if keep < 1 {
			return fmt.Errorf("--keep %d would keep no copy; write how many to keep, such as --keep 14", keep)
		}
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
		path = filepath.Join(path, time.Now().UTC().Format(dated))
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s was made in this second; run the command again", path)
		}
	}
	copied, err := configured.Backup(ctx, path)
	if err == nil {
		err = printCopy(out, path, copied)
	}
	if err != nil || keep == 0 {
		return err
	}
	return deleteOldBackups(fl.Arg(0), keep)
}

// deleteOldBackups deletes the copies by --keep in a folder, except the newest ones.
func deleteOldBackups(folder string, keep int) error {
	files, err := os.ReadDir(folder) // sorted, so that the oldest copy is the first
	if err != nil {
		return err
	}
	copies := slices.DeleteFunc(files, func(f fs.DirEntry) bool {
		_, err := time.Parse(dated, f.Name())
		return err != nil
	})
	for _, old := range copies[:max(len(copies)-keep, 0)] {
		if err := os.Remove(filepath.Join(folder, old.Name())); err != nil {
			return err
		}
	}
	return nil
}

func restoreCommand() *cobra.Command {
	return withCreateFlag(withConfigFlags(&cobra.Command{
		Use:   "restore <file>",
		Short: "Copies a backup into an empty ledger while no server runs",
		Long: `
Copies a backup into the ledger of the configuration, which must be empty. Stop
the server first. --create makes that ledger if there is none; check the path
that it prints. Move an old file away together with its -wal, which has the
newest payments of a killed server. Payments newer than the backup are read
again from their sources, as far as those still have them.`,
		Example: "  caddy pay-offer ledger restore --create /backup/pay_offer.db",
	}, withLedger(func(ctx context.Context, configured *ledger.Ledger, _ plugin, fl caddycmd.Flags, out io.Writer) error {
		if _, err := os.Stat(fl.Arg(0)); err != nil {
			return fmt.Errorf("the backup cannot be read: %w; name a file that this user can read", err)
		}
		if err := openTarget(ctx, configured, fl); err != nil {
			return err
		}
		restored, err := configured.Restore(ctx, fl.Arg(0))
		if err = errors.Join(err, configured.Close()); err != nil {
			return err
		}
		return printCopy(out, configured.Name(), restored)
	})))
}

// withCreateFlag adds the option that lets a command make a ledger.
func withCreateFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().Bool("create", false, "Make the target ledger if there is none")
	return cmd
}

// openTarget opens the ledger to copy into.
func openTarget(ctx context.Context, target *ledger.Ledger, fl caddycmd.Flags) error {
	if fl.Bool("create") {
		return target.OpenExclusive(ctx)
	}
	err := target.OpenExisting(ctx)
	if errors.Is(err, ledger.ErrNoLedger) {
		err = fmt.Errorf("%w. Only if %s is the path of the server's ledger, add --create", err, target.Where())
	}
	return err
}

func moveCommand() *cobra.Command {
	cmd := withCreateFlag(withConfigFlags(&cobra.Command{
		Use:   "move",
		Short: "Copies the ledger to another database while no server runs",
		Long: `
Copies the ledger of the configuration into an empty one. Stop the server first.
--create makes the new ledger if there is none. --to names it as the
configuration does; a DSN is a secret, so name its variable or file. The old
ledger accepts no more payments; to go back, move the new one to an empty one.`,
		Example: `  caddy pay-offer ledger move --create --to 'postgres {env.LEDGER_DSN}'
  caddy pay-offer ledger move --create --to 'sqlite /var/lib/caddy/pay_offer.db'`,
	}, withLedger(move)))
	cmd.Flags().String("to", "", "The other ledger, as in the configuration: sqlite <path> or postgres {env.NAME}")
	_ = cmd.MarkFlagRequired("to")
	return cmd
}

func move(ctx context.Context, configured *ledger.Ledger, app plugin, fl caddycmd.Flags, out io.Writer) error {
	other, err := app.NewLedger(fl.String("to"))
	if err != nil {
		return err
	}
	if err := configured.OpenExisting(ctx); err != nil {
		return err
	}
	var moved ledger.Contents
	_, err = fmt.Fprintf(out, "to: %s\n", printable(other.Where()))
	if err == nil {
		err = openTarget(ctx, other, fl)
	}
	if err == nil {
		moved, err = ledger.Copy(ctx, other, configured)
	}
	if err == nil {
		if err = configured.Retire(ctx); err != nil {
			err = fmt.Errorf("the copy is complete, but the old ledger still accepts payments: %w. Start no server with either ledger, empty the new one and move again", err)
		}
	}
	if err = errors.Join(err, other.Close(), configured.Close()); err != nil {
		return err
	}
	if err := printCopy(out, other.Name(), moved); err != nil {
		return err
	}
	line := strings.ReplaceAll(fl.String("to"), "{file./dev/stdin}", "{env.LEDGER_DSN}")
	_, err = fmt.Fprintf(out, `Write this into the global option pay_offer of the configuration, or its words into the variable LEDGER if it says
ledger {$LEDGER:sqlite}, and start the server:
	ledger %s
The old ledger keeps its data and accepts no more payments.
`, printable(line))
	return err
}

func forgetKeysCommand() *cobra.Command {
	return withConfigFlags(&cobra.Command{
		Use:   "forget-keys",
		Short: "Makes the ledger forget lost keys while no server runs",
		Long: `
A server does not start with other keys in Caddy's storage than the ledger has
seen. Share or restore that storage if you can. If it is lost, stop all servers
and run this command: the next start makes new keys. Receipts signed with the
lost keys can no longer be verified, and published URLs of QR images stop
working. Payments stay.`,
		Example: "  caddy pay-offer ledger forget-keys",
	}, withLedger(func(ctx context.Context, configured *ledger.Ledger, _ plugin, _ caddycmd.Flags, out io.Writer) error {
		if err := configured.OpenExisting(ctx); err != nil {
			return err
		}
		names, err := configured.ForgetKeys(ctx)
		if err = errors.Join(err, configured.Close()); err != nil {
			return err
		}
		if len(names) == 0 {
			_, err = fmt.Fprintf(out, "%s remembers no keys; nothing was changed\n", printable(configured.Name()))
			return err
		}
		_, err = fmt.Fprintf(out, "%s has forgotten the keys of %s: receipts signed with lost keys can no longer be verified\n",
			printable(configured.Name()), printable(strings.Join(names, ", ")))
		return err
	}))
}

// withLedger passes the ledger of the configuration, not open. An interrupt ends the
// context, so that no partial copy remains.
func withLedger(run func(ctx context.Context, configured *ledger.Ledger, app plugin, fl caddycmd.Flags, out io.Writer) error) func(caddycmd.Flags, io.Writer) error {
	return func(fl caddycmd.Flags, out io.Writer) (err error) {
		app, err := configuredApp(fl)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, app.Cleanup()) }()
		configured, err := app.NewLedger("")
		if err != nil {
			return err
		}
		if err := printWhere(out, configured); err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		return run(ctx, configured, app, fl, out)
	}
}

func printWhere(out io.Writer, l *ledger.Ledger) error {
	_, err := fmt.Fprintf(out, "ledger: %s\n", printable(l.Where()))
	return err
}

// printCopy prints what a copy contains, and how old its newest entry is.
func printCopy(out io.Writer, name string, copied ledger.Contents) error {
	rows, newest := copied.Rows, "it has no entries"
	if !copied.Newest.IsZero() {
		newest = fmt.Sprintf("the newest entry is of %s, %s ago", copied.Newest.UTC().Format("2006-01-02 15:04:05 UTC"), age(time.Since(copied.Newest)))
	}
	_, err := fmt.Fprintf(out, "%s contains %d receipts with %d changes, %d x402 payments and %d accounts; sums and history agree\n%s\n",
		name, rows["receipts"], rows["transitions"], rows["intents"], rows["accounts"], newest)
	return err
}

// age is a duration in its largest whole unit, such as 8 days.
func age(d time.Duration) string {
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"days", 24 * time.Hour}, {"hours", time.Hour}, {"minutes", time.Minute}} {
		if d >= 2*unit.size {
			return fmt.Sprintf("%d %s", d/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%d seconds", max(d, 0)/time.Second)
}
