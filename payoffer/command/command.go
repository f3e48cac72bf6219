// Package command contains the subcommands of 'caddy pay-offer'. Subcommands that read
// or change receipts call the admin API of the running server, where package operator
// does the work.
package command

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "pay-offer",
		Short: "Checks payment offers and manages their payments",
		Long: `
Manages the payment offers of a configuration.

Without --config, the commands read the Caddyfile in the current directory. init
writes a Caddyfile. check, qr and site start nothing and open no ledger. pay and
verify need no configuration. ledger opens the database itself. The other
commands use the admin API of the running server.`,
		CobraFunc: func(cmd *cobra.Command) {
			group(cmd, subcommands()...)
		},
	})
}

func subcommands() []*cobra.Command {
	return []*cobra.Command{initCommand(), checkCommand(), qrCommand(), siteCommand(), receivedCommand(), recordCommand(),
		intentsCommand(), resolveCommand(), announcementsCommand(), watchCommand(), payCommand(), verifyCommand(), rotateKeyCommand(), ledgerCommand()}
}

// group adds subcommands to a command. An unknown subcommand is an error: cobra would
// print the help and succeed, and a mistyped backup would look like a backup.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		var names []string
		for _, c := range cmd.Commands() {
			names = append(names, c.Name())
		}
		return fmt.Errorf("unknown command %.80q for %q; there are: %s", args[0], cmd.CommandPath(), strings.Join(names, ", "))
	}
	return cmd
}

// runs sets the function of a command.
func runs(cmd *cobra.Command, run func(fl caddycmd.Flags, out io.Writer) error) *cobra.Command {
	return exits(cmd, func(fl caddycmd.Flags) (int, error) {
		if err := run(fl, cmd.OutOrStdout()); err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		return caddy.ExitCodeSuccess, nil
	})
}

// exits sets the function of a command that returns an exit status. Caddy's log is
// suppressed, so that the output is only the command's.
func exits(cmd *cobra.Command, run func(fl caddycmd.Flags) (int, error)) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		caddy.BufferedLog()
		status, err := run(caddycmd.Flags{FlagSet: cmd.Flags()})
		err = harmless(err)
		if err == nil || status <= caddy.ExitCodeFailedStartup {
			return err
		}
		// Only Caddy makes an error with an exit status.
		cmd.PrintErrln(cmd.ErrPrefix(), err.Error())
		return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return status, err })(cmd, args)
	}
	return cmd
}

// harmless returns an error whose text does not control a terminal. It may have several
// lines.
func harmless(err error) error {
	if err == nil {
		return nil
	}
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	if text := strings.Join(lines, "\n"); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// configured adds the flags of a command that reads a configuration.
func configured(cmd *cobra.Command, run func(fl caddycmd.Flags, out io.Writer) error) *cobra.Command {
	cmd.Flags().StringP("config", "c", "", "The configuration file")
	cmd.Flags().StringP("adapter", "a", "", "The configuration adapter, if the file is not a Caddyfile")
	return runs(cmd, run)
}

// asking adds the flags of a command that uses the admin API of the running server.
func asking(cmd *cobra.Command, run func(fl caddycmd.Flags, out io.Writer) error) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("unexpected argument %q; see 'caddy pay-offer %s --help'", args[0], cmd.Name())
		}
		return nil
	}
	cmd.Flags().String("address", "", "The address of the admin API, if not that of the configuration")
	return configured(cmd, run)
}

// printable removes characters that control a terminal. Many strings come from payers
// and providers.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
}
