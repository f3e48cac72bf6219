package docs

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/handbook"
)

// repository is where the pages say that this is cloned from.
const repository = "https://github.com/payoffer/caddy-pay-offer"

// A sandbox is a shell in a fresh clone, in which the tests follow the documentation. The pages name the
// ports of the shipped Caddyfile and of Caddy's admin API, and the server has others.
type sandbox struct {
	*server.Process
	folder, tools string
	env           []string
	there, back   []string // pairs: a text of the pages and what it is here, and the way back
	root          string   // the root folder of an installation, else empty
}

// newSandbox starts the server of the shipped Caddyfile.
func newSandbox(t *testing.T, root string, env []string) *sandbox {
	t.Helper()
	text := lab.Must(os.ReadFile(lab.Path(t, "Caddyfile")))(t)
	caddyfile := string(text)
	there, back := slices.Clone(payoffertest.Placeholders), []string{}
	for i := 0; i < len(there); i += 2 {
		back = append(back, there[i+1], there[i])
	}
	free := map[string]string{}
	for _, port := range []string{"8402", "8403", "2019"} {
		free[port] = payoffertest.FreePort(t)
		caddyfile = strings.ReplaceAll(caddyfile, ":"+port, ":"+free[port])
		there, back = append(there, "localhost:"+port, "localhost:"+free[port]),
			append(back, "localhost:"+free[port], "localhost:"+port, "localhost%3A"+free[port], "localhost%3A"+port)
	}
	env = append([]string{"CADDY_ADMIN=localhost:" + free["2019"]}, env...)
	d := &sandbox{
		Process: server.Start(t, "http://localhost:"+free["8402"], caddyfile, env...), folder: t.TempDir(),
		there: there,
	}
	d.tools = filepath.Join(d.folder, "tools")
	require.NoError(t, os.Mkdir(d.tools, 0o700))
	require.NoError(t, os.Symlink(server.Released(t), filepath.Join(d.tools, "caddy")))
	git := lab.Must(exec.LookPath("git"))(t)
	maker := lab.Must(exec.LookPath("make"))(t)
	for name, script := range map[string]string{
		// What is built is what is tested.
		"go":     `shift 2 && exec caddy "$@"`,
		"xcaddy": `for output; do :; done; ln -sf "$(readlink -f "$(command -v caddy)")" "$output"`,
		"make":   `[ "$3" = build ] || exec ` + maker + ` "$@"; mkdir -p bin && cp -L "$(command -v caddy)" bin`,
		// A slow machine prints its progress, too, and a clone from a folder that it is done.
		"git": git + ` "$@" 2>&1 | sed '/^Updating files/d; /^done\.$/d' >&2; cp ` + d.Home + `/Caddyfile caddy-pay-offer/Caddyfile`,
	} {
		d.write(t, name, script)
	}
	d.back = append(back, d.folder+"/caddy-pay-offer", "/home/you/caddy-pay-offer", d.Home+"/data", "/home/you/.local/share")
	d.env = append([]string{
		"PATH=" + d.tools + ":" + os.Getenv("PATH"), "HOME=" + d.Home, "XDG_CONFIG_HOME=" + d.Home + "/config",
		"XDG_DATA_HOME=" + d.Home + "/data", "LANG=C.UTF-8", "TZ=UTC", "GOGC=" + os.Getenv("GOGC"),
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url." + root + ".insteadOf", "GIT_CONFIG_VALUE_0=" + repository,
	}, env...)
	return d
}

// real returns the text of a page with the values of this sandbox replaced by those of the page.
func (s *sandbox) real(text string) string { return strings.NewReplacer(s.back...).Replace(text) }

// write creates a program in the sandbox.
func (s *sandbox) write(t *testing.T, name, script string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(s.tools, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
}

// mark stands in the output after each command, before its status.
const mark = "-- the status of a command is "

// printed is what a command wrote, as a page would show it, and its status.
type printed struct {
	text   string
	status int
}

// run runs the commands of a page in one shell.
func (s *sandbox) run(t *testing.T, page string, commands []handbook.Command) (all []printed) {
	t.Helper()
	var script strings.Builder
	here := strings.NewReplacer(s.there...)
	if page != "README.md" && s.root == "" { // README makes the clone
		script.WriteString("cd caddy-pay-offer\n")
	}
	for _, c := range commands {
		text := strings.ReplaceAll(here.Replace(c.Text), " --amount ", " --sure --amount ") // its dates grow old
		script.WriteString(text + "printf '\\n" + mark + "%s\\n' $?\n")
	}
	shell := exec.Command("bash", "-c", script.String())
	shell.Dir, shell.Env = s.folder, s.env
	output, err := shell.CombinedOutput()
	require.NoError(t, err, "%s", output)
	rest := string(output)
	for _, c := range commands {
		text, after, found := strings.Cut(rest, "\n"+mark)
		require.True(t, found, "%s%s", c.Text, rest)
		status, next, _ := strings.Cut(after, "\n")
		code := lab.Must(strconv.Atoi(status))(t)
		all, rest = append(all, printed{s.withoutLog(text), code}), next
	}
	return all
}

// withoutLog is what a command prints, without the lines in which Caddy tells of its work.
func (s *sandbox) withoutLog(output string) string {
	var kept strings.Builder
	for line := range strings.Lines(output) {
		if shown := shown(line); shown == line || strings.Contains(shown, "\tERROR\t") {
			kept.WriteString(shown)
		}
	}
	return s.real(kept.String())
}

// shown is a log as a terminal shows it, to which Caddy writes words where it writes JSON elsewhere.
func shown(log string) string {
	var shown strings.Builder
	for line := range strings.Lines(log) {
		var entry struct{ Level, Logger, Msg string }
		if json.Unmarshal([]byte(line), &entry) != nil || entry.Level == "" {
			shown.WriteString(line)
			continue
		}
		words := []string{"2026/11/23 09:00:00.000", strings.ToUpper(entry.Level)}
		if entry.Logger != "" {
			words = append(words, entry.Logger)
		}
		words = append(words, entry.Msg)
		if fields := fieldsOf(line); fields != "" {
			words = append(words, fields)
		}
		shown.WriteString(strings.Join(words, "\t") + "\n")
	}
	return shown.String()
}

// fieldsOf are the fields of a log line beside those that every line has.
func fieldsOf(line string) string {
	_, after, found := strings.Cut(line, `"msg":`)
	if !found {
		return ""
	}
	decoder := json.NewDecoder(strings.NewReader(after))
	var msg string
	if decoder.Decode(&msg) != nil {
		return ""
	}
	fields := strings.TrimPrefix(after[decoder.InputOffset():], ",")
	if fields = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(fields), "}")); fields == "" {
		return ""
	}
	return "{" + strings.NewReplacer(`":`, `": `, `",`, `", `).Replace(fields) + "}"
}

// masks are the parts of an output that are others each time.
var masks = []struct {
	form *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "<time>"},
	{regexp.MustCompile(`\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d+`), "<time>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d`), "<day>"},
	{regexp.MustCompile(`\b\d{8}T\d{6}Z\b`), "<time>"},
	{regexp.MustCompile(`/v1/receipt/[A-Za-z0-9_.-]+`), "/v1/receipt/<id>"},
	{regexp.MustCompile(`\b\d+\.[0-9a-f]{16}\b`), "<cursor>"},
	{regexp.MustCompile(`\b[0-9a-f]{16}\b`), "<tag>"},
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "<secret>"},
	{regexp.MustCompile(`whsec_[A-Za-z0-9+/]{43}=`), "<secret>"},
	{regexp.MustCompile(`#[A-Za-z0-9_-]{43}`), "#<key>"},
	{regexp.MustCompile(`[ \t\r]+`), " "},
	{regexp.MustCompile(` *\n`), "\n"},
}

func normal(text string) string {
	for _, m := range masks {
		text = m.form.ReplaceAllString(text, m.name)
	}
	return strings.Trim(text, "\n") + "\n"
}

// pattern is what an output has to match. A line with an ellipsis alone stands for any lines, and one at the end of a line
// for its rest.
func pattern(shown string) string {
	p := "\n" + regexp.QuoteMeta(normal(shown))
	p = strings.ReplaceAll(p, "\n"+`\.\.\.`+"\n", "\n(?:.*\n)*?")
	p = strings.ReplaceAll(p, `\.\.\.`+"\n", ".*\n")
	return `\A` + strings.TrimPrefix(p, "\n") + `\z`
}
