// Package command holds the subcommands of 'caddy pay-offer'. Those that keep
// the books are thin: what they ask for and print is done by package desk,
// behind the admin API of the running server.
package command

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "pay-offer",
		Short: "Checks, shows and keeps the books of payment offers",
		Long: `
Works with the payment offers of a configuration.

Without --config the Caddyfile in the current directory is read. Nothing is
started or opened by check, qr and site; check asks upstreams for the time, and
with --live everybody that the offers depend on. init writes a Caddyfile. verify
needs no configuration and asks the domain that signed; pay needs none and pays
whatever URL it is given; ledger opens the database itself; the other commands
ask the admin API of the running server.`,
		CobraFunc: func(cmd *cobra.Command) {
			group(cmd, subcommands()...)
		},
	})
}

func subcommands() []*cobra.Command {
	return []*cobra.Command{initCommand(), checkCommand(), qrCommand(), siteCommand(), receivedCommand(), recordCommand(),
		intentsCommand(), resolveCommand(), announcementsCommand(), watchCommand(), payCommand(), verifyCommand(), rotateKeyCommand(), ledgerCommand()}
}

// group makes a command of others. It fails where it is asked for one that it does
// not have, also with flags of that: cobra would print its help and succeed, and a
// backup that is mistyped would look like one that was made.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	unknown := func(cmd *cobra.Command, asked string) error {
		var names []string
		for _, c := range cmd.Commands() {
			names = append(names, c.Name())
		}
		return fmt.Errorf("unknown command %.80q for %q; there are: %s", asked, cmd.CommandPath(), strings.Join(names, ", "))
	}
	// Its help is not that of a command that it does not have.
	cmd.Flags().VarPF(&help{of: cmd}, "help", "h", "Shows this").NoOptDefVal = "true"
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 {
			return unknown(cmd, cmd.Flags().Arg(0))
		}
		return err
	})
	cmd.Args = cobra.ArbitraryArgs // they are told of below
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknown(cmd, args[0])
	}
	return cmd
}

// help is the flag of a group, which fails after what is no command of it.
type help struct {
	of    *cobra.Command
	shown bool
}

func (h *help) String() string { return strconv.FormatBool(h.shown) }
func (*help) Type() string     { return "bool" }

func (h *help) Set(value string) (err error) {
	if h.of.Flags().NArg() > 0 {
		return errors.New("there is no such command") // of which the group tells
	}
	h.shown, err = strconv.ParseBool(value)
	return err
}

// runs makes a command do what run does.
func runs(cmd *cobra.Command, run func(fl caddycmd.Flags, out io.Writer) error) *cobra.Command {
	return exits(cmd, func(fl caddycmd.Flags) (int, error) {
		if err := run(fl, cmd.OutOrStdout()); err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		return caddy.ExitCodeSuccess, nil
	})
}

// exits makes a command do what run does, and end with its status. Caddy logs how it
// reads a configuration, and errors too; here nothing stands before the output, and an
// error is one line in words.
func exits(cmd *cobra.Command, run func(fl caddycmd.Flags) (int, error)) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		caddy.BufferedLog()
		status, err := run(caddycmd.Flags{FlagSet: cmd.Flags()})
		err = harmless(err)
		if err == nil || status <= caddy.ExitCodeFailedStartup {
			return err
		}
		// Caddy alone makes an error with a status, and logs it, which is not shown.
		cmd.PrintErrln(cmd.ErrPrefix(), err.Error())
		return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return status, err })(cmd, args)
	}
	return cmd
}

// harmless is an error of which nothing steers a terminal. It may have several lines.
func harmless(err error) error {
	if err == nil {
		return nil
	}
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	if said := strings.Join(lines, "\n"); said != err.Error() {
		return errors.New(said)
	}
	return err
}

// configured makes a command of one that reads a configuration.
func configured(cmd *cobra.Command, run func(fl caddycmd.Flags, out io.Writer) error) *cobra.Command {
	cmd.Flags().StringP("config", "c", "", "The configuration file")
	cmd.Flags().StringP("adapter", "a", "", "The configuration adapter, if the file is no Caddyfile")
	return runs(cmd, run)
}

// asking makes a command of one that asks the admin API of the running server.
func asking(cmd *cobra.Command, run func(fl caddycmd.Flags, out io.Writer) error) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return fmt.Errorf("%q belongs to no flag; see 'caddy pay-offer %s --help'", args[0], cmd.Name())
		}
		return nil
	}
	cmd.Flags().String("address", "", "The address of the admin API, if not that of the configuration")
	return configured(cmd, run)
}

// printable leaves out what would steer a terminal: many strings come from
// payers and providers.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
}
