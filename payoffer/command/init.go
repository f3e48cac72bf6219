package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

func initCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init [--domain <host>] [--card <url>] [--<question> <answer>…] [--output <file>] [--yes]",
		Short: "Asks ten questions and writes a Caddyfile with an offer",
		Long: `
Asks at most ten questions, writes a Caddyfile of its own with one offer of
42 USD, and prints what is left to do elsewhere.

Each answer is checked as the Caddyfile will be, and asked for again where it is
refused. Enter takes what stands in brackets, or leaves a way to pay out; the
domain and the card checkout alone are needed. No secret is asked for: the file
names the environment variable of each. Nothing is started, nobody is called,
and a file that is there is never written over.

A flag answers its question in the same words, which then is not asked. --yes
asks nothing, as where there is no terminal.`,
		Example: "  caddy pay-offer init\n" +
			"  caddy pay-offer init --yes --domain pay.example.org --card https://buy.stripe.com/your-link\n" +
			"  caddy pay-offer init --usdc '0x52908400098527886E0F7030069857D2E4169EE7 base-sepolia' --output rehearsal.caddyfile",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return errors.New("a word belongs to no flag; quote an answer of several words, as in --usdc '0x… base'")
			}
			return nil
		},
	}
	for _, q := range questions {
		cmd.Flags().Var(new(answer), q.flag, q.help)
	}
	cmd.Flags().String("output", "Caddyfile", "The file to write")
	cmd.Flags().BoolP("yes", "y", false, "Ask nothing, and leave out what no flag gives")
	return runs(cmd, func(fl caddycmd.Flags, out io.Writer) error {
		i := interview{in: bufio.NewReader(cmd.InOrStdin()), out: out, given: make(map[string]string)}
		for _, q := range questions {
			given := fl.Lookup(q.flag).Value.(*answer)
			if given.times > 1 {
				return fmt.Errorf("--%s is given twice, and init takes one answer; write the other into the file that it makes, in a line of its own", q.flag)
			}
			if given.times == 1 {
				i.given[q.flag] = given.words
			}
		}
		i.asks = !fl.Bool("yes") && onTerminal(cmd.InOrStdin())
		return i.run(fl.String("output"))
	})
}

// answer is the value of a flag, and how often that was given.
type answer struct {
	words string
	times int
}

// Set implements pflag.Value. It refuses nothing, for that would be repeated.
func (a *answer) Set(words string) error {
	a.words = words
	a.times++
	return nil
}

func (a *answer) String() string { return a.words }

// Type implements pflag.Value.
func (a *answer) Type() string { return "string" }

// interview is one run of the command.
type interview struct {
	in    *bufio.Reader
	out   io.Writer
	given map[string]string // answers by the flags of their questions
	asks  bool
}

// run writes the file that is named, or none.
func (i *interview) run(name string) error {
	// Before the questions; in the end it is created only where it is not.
	if _, err := os.Lstat(name); err == nil {
		return isThere(name)
	}
	if missing := i.missing(); len(missing) > 0 {
		return fmt.Errorf("without %s there is no offer; without a terminal and with --yes nothing is asked", strings.Join(missing, " and "))
	}
	a, err := i.answers()
	if err != nil {
		return err
	}
	text, err := a.caddyfile()
	if err != nil {
		return err
	}
	if err := tryCaddyfile(text); err != nil {
		return err
	}
	if err := create(name, text); err != nil {
		return err
	}
	steps, err := a.steps(name)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(i.out, steps)
	return err
}

// missing are the flags without which there is no offer, where nothing is asked.
func (i *interview) missing() (flags []string) {
	for _, q := range questions {
		if q.needed && !i.asks && i.given[q.flag] == "" {
			flags = append(flags, "--"+q.flag)
		}
	}
	return flags
}

// answers takes the answers of the flags, and asks for the others.
func (i *interview) answers() (a answers, err error) {
	for _, q := range questions {
		if words, given := i.given[q.flag]; given {
			if a, err = a.with(q, words); err != nil {
				return a, fmt.Errorf("--%s: %s", q.flag, printableLines(err.Error()))
			}
		}
	}
	if !i.asks {
		return a, nil
	}
	i.print("These questions make a Caddyfile with one offer of 42 USD. Enter takes what stands in\n" +
		"brackets, or leaves out what is asked for. Secrets are not asked for.")
	number := 0
	for _, q := range questions {
		if _, given := i.given[q.flag]; given || q.ask == "" {
			continue
		}
		number++
		i.print(fmt.Sprintf("\n%d. %s\n   as in: %s", number, q.ask, q.form))
		if a, err = i.ask(a, q); err != nil {
			return a, err
		}
	}
	return a, nil
}

// ask reads answers to a question until one is taken.
func (i *interview) ask(a answers, q question) (answers, error) {
	for {
		fmt.Fprint(i.out, "> ")
		words, err := i.in.ReadString('\n')
		if err != nil {
			return a, errors.New("nothing was written: the answers ended before the questions")
		}
		taken, err := a.with(q, words)
		if err == nil {
			return taken, nil
		}
		i.print("Not taken: " + printableLines(err.Error()))
	}
}

func (i *interview) print(line string) { fmt.Fprintln(i.out, line) }

// printableLines is printable of a text of several lines.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	return strings.Join(lines, "\n")
}

// create writes a file that is not there yet, whole or not at all. The owner alone may
// read it, for the address of an announcement may be a secret.
func create(name string, text []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return isThere(name)
	case err != nil:
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

func isThere(name string) error {
	return fmt.Errorf("%s is there already and is not written over; write another one, as with --output pay-offer.caddyfile", printable(name))
}
