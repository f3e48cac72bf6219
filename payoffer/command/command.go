// Package command contains the subcommands of 'caddy pay-offer'. Subcommands that read
// or change receipts call the admin API of the running server, where package operator
// does the work.
package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func init() {
	caddycmd.RegisterCommand(caddycmd.Command{
		Name:  "pay-offer",
		Short: "Checks payment offers and manages their payments",
		Long: `
Manages the payment offers of a configuration.

Without --config, the commands read the Caddyfile in the current folder. The
commands under Money, and watch, announcements, pass and rotate-key, need a running
server and use its admin API. ledger opens the database itself. The others need
no server. Guides: https://github.com/payoffer/caddy-pay-offer/tree/main/payoffer/docs`,
		CobraFunc: func(cmd *cobra.Command) {
			cmd.Example = "  caddy pay-offer init\n  caddy pay-offer check --live\n  caddy pay-offer received"
			cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return explainUsage(cmd, err.Error()) })
			for i, title := range []string{"Set up", "Money", "Operate", "Client"} {
				cmd.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
				for _, c := range subcommands()[i] {
					c.GroupID = title
					group(cmd, c)
				}
			}
		},
	})
}

// subcommands are those of each title in the help.
func subcommands() [][]*cobra.Command {
	return [][]*cobra.Command{
		{initCommand(), checkCommand(), siteCommand(), systemdCommand()},
		{receivedCommand(), recordCommand(), intentsCommand(), resolveCommand()},
		{watchCommand(), announcementsCommand(), passCommand(), rotateKeyCommand(), ledgerCommand()},
		{payCommand(), verifyCommand()},
	}
}

// group adds subcommands to a command. An unknown subcommand is an error: cobra would
// print the help and succeed, and a mistyped backup would look like a backup.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(commands...)
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		if args[0] == "help" { // cobra has it only at the root
			if asked, _, err := cmd.Find(args[1:]); err == nil {
				return asked.Help()
			}
		}
		var names []string
		for _, c := range cmd.Commands() {
			names = append(names, c.Name())
		}
		if similar := cmd.SuggestionsFor(args[0]); args[0] != "" && len(similar) > 0 {
			return fmt.Errorf("unknown command %.80q (did you mean '%s %s'?)", args[0], cmd.CommandPath(), similar[0])
		}
		return fmt.Errorf("unknown command %.80q; valid commands of '%s': %s", args[0], cmd.CommandPath(), strings.Join(names, ", "))
	}
	return cmd
}

// plainErrors replaces cobra's words.
var plainErrors = strings.NewReplacer("unknown flag: ", "there is no option ", "flag needs an argument: ", "a value is missing after ",
	"required flag(s)", "required options", "at least one of the flags in the group", "one of the options")

// exclusive is cobra's list of all options of a group, before those that were given.
var exclusive = regexp.MustCompile(`^if any flags in the group .* are set none of the others can be; \[(.*)\] were all set$`)

// explainUsage says what is wrong with the words of a command, and shows right ones.
func explainUsage(cmd *cobra.Command, problem string) error {
	if given := exclusive.FindStringSubmatch(problem); given != nil {
		problem = "--" + strings.ReplaceAll(given[1], " ", " and --") + " exclude each other, keep one of them"
	}
	examples := strings.Split(strings.TrimSpace(cmd.Example), "\n")
	_, option, needed := strings.Cut(problem, "flag needs an argument: ")
	example := examples[max(0, slices.IndexFunc(examples, func(line string) bool { return needed && strings.Contains(line, option) }))]
	return fmt.Errorf("%s; write for example: %s (see also --help)", plainErrors.Replace(problem), strings.TrimSpace(example))
}

// checkArguments accepts one argument if Use shows one, else none.
func checkArguments(cmd *cobra.Command, args []string) error {
	_, wanted, _ := strings.Cut(cmd.Use, " ")
	limit := 0
	if strings.HasPrefix(wanted, "<") {
		limit = 1
	}
	switch err := cmp.Or(cmd.ValidateRequiredFlags(), cmd.ValidateFlagGroups()); {
	case len(args) < limit, limit == 1 && args[0] == "":
		return explainUsage(cmd, "the argument "+wanted+" is missing")
	case len(args) > limit:
		return cmp.Or(offer.CheckNoSecret(args[limit]), explainUsage(cmd, fmt.Sprintf("unexpected argument %.80q", args[limit])))
	case err != nil:
		return explainUsage(cmd, err.Error())
	}
	return nil
}

// setRun sets the function of a command.
func setRun(cmd *cobra.Command, run func(fl caddycmd.Flags, out io.Writer) error) *cobra.Command {
	return setRunWithStatus(cmd, func(fl caddycmd.Flags) (int, error) {
		if err := run(fl, cmd.OutOrStdout()); err != nil {
			return caddy.ExitCodeFailedStartup, err
		}
		return caddy.ExitCodeSuccess, nil
	})
}

// setRunWithStatus sets the function of a command that returns an exit status. Caddy's log is
// suppressed, so that the output is only the command's.
func setRunWithStatus(cmd *cobra.Command, run func(fl caddycmd.Flags) (int, error)) *cobra.Command {
	cmd.Args = checkArguments
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		caddy.BufferedLog()
		status, err := run(caddycmd.Flags{FlagSet: cmd.Flags()})
		if stdout := (*fs.PathError)(nil); errors.As(err, &stdout) && stdout.Path == os.Stdout.Name() && errors.Is(err, syscall.EPIPE) {
			return nil // the reader has what it wants, such as head
		}
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

// withConfigFlags adds the flags of a command that reads a configuration.
func withConfigFlags(cmd *cobra.Command, run func(fl caddycmd.Flags, out io.Writer) error) *cobra.Command {
	cmd.Flags().StringP("config", "c", "", "The configuration file")
	cmd.Flags().StringP("adapter", "a", "", "The configuration adapter, if the file is not a Caddyfile")
	return setRun(cmd, run)
}

// withAdminFlags adds the flags of a command that uses the admin API of the running server.
func withAdminFlags(cmd *cobra.Command, run func(fl caddycmd.Flags, out io.Writer) error) *cobra.Command {
	cmd.Flags().String("address", "", "The address of the admin API, if not that of the configuration")
	return withConfigFlags(cmd, run)
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

// onTerminal reports whether the input is a character device other than the null device.
func onTerminal(in io.Reader) bool {
	file, isFile := in.(*os.File)
	if !isFile {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
