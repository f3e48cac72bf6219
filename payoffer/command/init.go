package command

import (
	"bufio"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/card"
	"github.com/payoffer/caddy-pay-offer/payoffer/offer"
)

func initCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init [--output <file>]",
		Short: "Asks twelve questions and writes a Caddyfile with an offer",
		Long: `
Asks twelve questions, writes a Caddyfile with one offer of 42 USD, and prints
what is left to do. Enter skips a question, < goes back one question. Only the
domain and the card checkout are needed. init does not ask for secrets: the file
names their environment variables. It starts nothing, sends no request and does
not overwrite a file. 'caddy pay-offer check' checks the result.

A script sends the twelve answers to its standard input, one a line. Then the
first rejected answer ends the command.`,
		Example: "  caddy pay-offer init\n  caddy pay-offer init --output pay-offer.caddyfile",
	}
	cmd.Flags().String("output", "Caddyfile", "The file to write")
	return setRun(cmd, func(fl caddycmd.Flags, out io.Writer) error {
		in := cmd.InOrStdin()
		i := &interview{in: bufio.NewReader(in), out: out, retry: onTerminal(in)}
		return i.run(fl.String("output"))
	})
}

// interview is one run of the command.
type interview struct {
	in     *bufio.Reader
	out    io.Writer
	retry  bool     // a rejected answer is asked for again
	number int      // of the last question
	given  []string // the accepted answers
	err    error
}

// errBack ends the questions, to ask the one before the last again.
var errBack = errors.New("back")

// run asks the questions and writes the file.
func (i *interview) run(name string) error {
	if _, err := os.Lstat(name); err == nil {
		return errExists(name)
	}
	a := i.answers()
	for i.err == errBack {
		i.number, i.err = 0, nil
		a = i.answers()
	}
	if i.err != nil {
		return i.err
	}
	text, err := fill(caddyfileText, a, template.FuncMap{"quote": quote})
	if err != nil {
		return err
	}
	text = caddyfile.Format(text)
	if err := create(name, text, 0o600); err != nil {
		return err
	}
	secrets := text
	if a.Card.PaymentLink == "" { // a step says to add them
		secrets = append(secrets, "{env.CARD_WEBHOOK_SECRET} {env.CARD_API_KEY}"...)
	}
	number := 0
	steps, err := fill(stepsText, map[string]any{
		"Answers": a, "File": name, "Local": offer.IsLoopback(offer.Hostname(a.Service)), "Variables": variables(secrets), "CardEvents": card.Events,
		"Thanks": offer.PathThanks, "Real": a.real(), "HookCard": offer.PathHookCard, "Hook": offer.PathHook,
	}, template.FuncMap{"step": func() int { number++; return number }})
	if err != nil {
		return err
	}
	_, err = i.out.Write(steps)
	return err
}

// askQuestion asks a question and returns the answer, the zero value if it is skipped. After an
// error of the interview it asks nothing.
func askQuestion[T any](i *interview, question, example string, needed bool, parse func(text string) (T, error)) (value T) {
	if i.err != nil {
		return value
	}
	i.number++
	if i.number <= len(i.given) { // asked again after errBack
		if text := i.given[i.number-1]; text != "" {
			value, i.err = parse(text)
		}
		return value
	}
	fmt.Fprintf(i.out, "\n%d. %s\n   Example: %s\n", i.number, question, example)
	for {
		fmt.Fprint(i.out, "> ")
		line, err := i.in.ReadString('\n')
		text := strings.TrimSpace(line)
		switch {
		case err != nil && text == "":
			i.err = errors.New("nothing was written, because there are fewer answers than questions; send twelve lines, empty ones to skip")
			return value
		case text == "<" && i.retry && i.number > 1:
			i.given, i.err = i.given[:i.number-2], errBack
			return value
		case text == "" && !needed:
			i.given = append(i.given, text)
			return value
		}
		if err = checkAnswer(text); err == nil {
			var parsed T // a parser may return a part of a rejected answer
			if parsed, err = parse(text); err == nil {
				i.given = append(i.given, text)
				return parsed
			}
		}
		if !i.retry {
			i.err = fmt.Errorf("question %d: %w", i.number, err)
			return value
		}
		fmt.Fprintf(i.out, "Rejected: %v\n", harmless(err))
	}
}

// checkAnswer returns an error for an answer that the file must not contain, or that means
// something else in a Caddyfile. It does not repeat the answer.
func checkAnswer(text string) error {
	if text == "" {
		return errors.New("an answer is needed; write one like the example")
	}
	if printable(text) != text || strings.ContainsAny(text, "{}\"`\\") {
		return errors.New("an answer cannot contain {, }, \", `, \\ or control characters; write such a text into the file later")
	}
	return offer.CheckNoSecret(text)
}

//go:embed init_caddyfile.tmpl
var caddyfileText string

//go:embed init_steps.tmpl
var stepsText string

func fill(text string, data any, functions template.FuncMap) ([]byte, error) {
	var out bytes.Buffer
	err := template.Must(template.New("").Funcs(functions).Parse(text)).Execute(&out, data)
	return out.Bytes(), err
}

var bare = regexp.MustCompile(`^[A-Za-z0-9_.:/@%?=&+~-]+$`)

// quote writes an answer that checkAnswer accepted as one word of a Caddyfile.
func quote(text string) string {
	if bare.MatchString(text) {
		return text
	}
	return `"` + text + `"`
}

var variable = regexp.MustCompile(`\{env\.(\w+)\}`)

// variables returns the names of the environment variables in a Caddyfile, sorted.
func variables(text []byte) (names []string) {
	for _, match := range variable.FindAllSubmatch(text, -1) {
		names = append(names, string(match[1]))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// create writes a new file. Only its owner can read it, because the address of a webhook
// may be a secret.
func create(name string, text []byte, mode fs.FileMode) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return errExists(name)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Chmod(mode), file.Close()); err != nil { // whatever the umask
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

func errExists(name string) error {
	return fmt.Errorf("%s exists and is not overwritten; name another file, for example --output pay-offer.caddyfile", name)
}
