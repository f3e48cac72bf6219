package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

func ledgerCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "ledger",
		Short: "Backs up, restores or moves the ledger, or lets it forget keys",
		Long: `
backup, restore and move copy a whole ledger as it is at one moment, on SQLite
or PostgreSQL, and compare its sums and its history with its rows before
anything is kept. Run each as the user of the server: a ledger's files are
private. Each prints the ledger that it uses. None makes a new ledger, except
restore and move with --create.`,
	}, backupCommand(), restoreCommand(), moveCommand(), forgetKeysCommand())
}

func backupCommand() *cobra.Command {
	return configured(&cobra.Command{
		Use:   "backup <file> [--config <path>] [--adapter <name>]",
		Short: "Copies the ledger into a new file, also while the server runs",
		Args:  cobra.ExactArgs(1),
	}, withLedger(func(ctx context.Context, configured *ledger.Ledger, _ plugin, fl caddycmd.Flags, out io.Writer) error {
		rows, err := configured.Backup(ctx, fl.Arg(0))
		if err != nil {
			return err
		}
		return printCopy(out, fl.Arg(0), rows)
	}))
}

func restoreCommand() *cobra.Command {
	return creating(configured(&cobra.Command{
		Use:   "restore <file> [--create] [--config <path>] [--adapter <name>]",
		Short: "Copies a backup into an empty ledger while no server runs",
		Long: `
Copies a backup into the ledger of the configuration, which must be empty and
which no server may have open. With --create it makes that ledger if there is
none: look at the path that it prints. A file of before is put away together
with its -wal, where the newest payments of a server that was killed are. What
is newer than the backup is read back from the sources that still tell it;
readers of /v1/received that were ahead are told.`,
		Args: cobra.ExactArgs(1),
	}, withLedger(func(ctx context.Context, configured *ledger.Ledger, _ plugin, fl caddycmd.Flags, out io.Writer) error {
		if err := openTarget(ctx, configured, fl); err != nil {
			return err
		}
		rows, err := configured.Restore(ctx, fl.Arg(0))
		if err = errors.Join(err, configured.Close()); err != nil {
			return err
		}
		return printCopy(out, configured.Name(), rows)
	})))
}

// creating adds the option without which a command makes no ledger.
func creating(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().Bool("create", false, "Make the ledger that is copied into, if there is none")
	return cmd
}

// openTarget opens the ledger that is copied into.
func openTarget(ctx context.Context, target *ledger.Ledger, fl caddycmd.Flags) error {
	if fl.Bool("create") {
		return target.OpenAlone(ctx)
	}
	err := target.OpenAsItIs(ctx)
	if errors.Is(err, ledger.ErrNone) {
		err = fmt.Errorf("%w; or add --create to make a new ledger: %s", err, target.Where())
	}
	return err
}

func moveCommand() *cobra.Command {
	cmd := creating(configured(&cobra.Command{
		Use:   "move --to <ledger> [--create] [--config <path>] [--adapter <name>]",
		Short: "Copies the ledger to another database while no server runs",
		Long: `
Copies the ledger of the configuration into an empty one, which is named as in
the configuration, and which --create makes if there is none. A DSN is a secret
and no argument: name its variable, or its file, as in {file./dev/stdin} for one
that is piped in. No server may have either of the two open. The ledger of
before takes nothing any more; the way back is to move the other one into an
empty one.`,
		Example: `  caddy pay-offer ledger move --create --to 'postgres {env.LEDGER_DSN}'
  caddy pay-offer ledger move --create --to 'sqlite /var/lib/caddy/pay_offer.db'`,
		Args: cobra.NoArgs,
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
	if err := configured.OpenAsItIs(ctx); err != nil {
		return err
	}
	rows, err := map[string]int64(nil), printWhere(out, other)
	if err == nil {
		err = openTarget(ctx, other, fl)
	}
	if err == nil {
		rows, err = ledger.Copy(ctx, other, configured)
	}
	if err == nil {
		if err = configured.Retire(ctx); err != nil {
			err = fmt.Errorf("all of it was copied, but the ledger of before still takes payments: %w; start no server with either, empty the other one and move it again", err)
		}
	}
	if err = errors.Join(err, other.Close(), configured.Close()); err != nil {
		return err
	}
	if err := printCopy(out, other.Name(), rows); err != nil {
		return err
	}
	line := strings.ReplaceAll(fl.String("to"), "{file./dev/stdin}", "{env.LEDGER_DSN}") // a server is not typed to
	_, err = fmt.Fprintf(out, `Write this into the global option pay_offer of the configuration, and start the server:
	ledger %s
The ledger of before keeps what it holds, and takes nothing any more.
`, printable(line))
	return err
}

func forgetKeysCommand() *cobra.Command {
	return configured(&cobra.Command{
		Use:   "forget-keys [--config <path>] [--adapter <name>]",
		Short: "Lets the ledger forget keys that are lost while no server runs",
		Long: `
A ledger remembers which keys its instances have in Caddy's storage, and one
that has others does not start. Where that storage is shared with this one, or
is brought back, nothing is to be done here.

Where it is lost for good, this lets the ledger of the configuration forget the
keys, and the next start makes new ones or takes those that it finds. Receipts
that were signed with the lost keys cannot be verified any more, and addresses
of QR images that were given out are not found. What was received stays as it
is. No server may have the ledger open: one that still runs has the keys.`,
		Args: cobra.NoArgs,
	}, withLedger(func(ctx context.Context, configured *ledger.Ledger, _ plugin, _ caddycmd.Flags, out io.Writer) error {
		if err := configured.OpenAsItIs(ctx); err != nil {
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
		_, err = fmt.Fprintf(out, "%s has forgotten the keys of %s: what was signed with keys that are lost cannot be verified any more\n",
			printable(configured.Name()), printable(strings.Join(names, ", ")))
		return err
	}))
}

// withLedger makes run get the ledger of the configuration, which is not open.
// An interrupt ends its context, so that nothing unfinished stays behind.
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

func printCopy(out io.Writer, name string, rows map[string]int64) error {
	_, err := fmt.Fprintf(out, "%s holds %d receipts with %d changes, %d x402 payments and %d accounts; sums and history agree\n",
		name, rows["receipts"], rows["transitions"], rows["intents"], rows["accounts"])
	return err
}
