// Package docs follows the documentation to the letter: every command in it is run beside one server with the shipped
// Caddyfile, and prints what the page says.
package docs

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/handbook"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/skip"
)

var update = flag.Bool("update", false, "write into the pages what their commands print")

// start is the command that starts the server, whose log is what it prints.
const start = "go run ./caddy run"

// elsewhere are the commands that are not run here, by how they begin, and why. None of them changes a ledger.
var elsewhere = map[string]string{
	start:                       "it runs while the others do; what it prints is compared at the end",
	"make -f xcaddy.mk test":    "it runs this",
	"FULL=1 make ":              "it runs this, for hours",
	"(cd caddy/e2e && go test ": "it is this",
	"go test ":                  "the tests that it runs are those of this module",
	"docker build ":             "there is no container engine; caddy/e2e/install runs the files of the image",
	"docker run --name ":        "there is no container engine; caddy/e2e/install runs the files of the image",
	"caddy pay-offer watch":     "it goes on until it is stopped; caddy/e2e/receipts follows it",
	"caddy pay-offer init":      "caddy/e2e/install answers the questions",
	"hledger ":                  "TestDocsAccountingImportBalances runs it, under FULL=1",
	"bean-check ":               "TestDocsAccountingImportBalances runs it, under FULL=1",
	"python3 beans.py":          "TestDocsAccountingImportBalances runs it, under FULL=1",

	"sudo as-pay-offer caddy pay-offer check --live": "no public address leads here; caddy/e2e/live has some",
	"go run ./caddy pay-offer pay ":                  "caddy/e2e/demo plays it; what is released has no demo",
	"go run ./caddy pay-offer received":              "caddy/e2e/demo plays it; what is released has no demo",
}

// optional are the programs of commands that a machine with Go, make and git can lack.
var optional = regexp.MustCompile(`\b(curl|openssl)\b`)

func present(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// exemption is how the command begins in elsewhere; empty if it is run here.
func exemption(command string) string {
	for begin := range elsewhere {
		if strings.HasPrefix(command, begin) {
			return begin
		}
	}
	return ""
}

func TestDocsCommandsPrintShownOutput(t *testing.T) {
	root := lab.Path(t, "")
	pages := lab.Must(handbook.Read(root))(t)
	// Nothing leaves this machine, so that all others are out of reach everywhere.
	offline := []string{"HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1"}
	shipped := newSandbox(t, root, offline)
	used := map[string]bool{}
	var begins string
	for _, page := range pages {
		t.Run(page.Name, func(t *testing.T) {
			commands := commandsOf(t, page)
			var run []handbook.Command
			var missing string
			for _, c := range commands {
				text := strings.TrimSpace(c.Text)
				if text == start {
					begins = c.Output
				}
				exempt := exemption(text)
				used[exempt] = true
				if exempt == "" {
					if program := optional.FindString(text); program == "" || present(program) {
						run = append(run, c)
					} else {
						missing = program
					}
					continue
				}
				require.NotRegexp(t, `pay-offer (ledger|record|resolve) `, text, "what changes a ledger is run")
			}
			sandbox := shipped
			installs := strings.HasSuffix(page.Name, "/systemd.md")
			if installed(page) {
				sandbox = shipped.install(t)
				if !installs {
					sandbox.sell(t)
				}
			}
			for i, printed := range sandbox.run(t, page.Name, run) {
				c := run[i]
				require.Zero(t, printed.status, "%s%s", c.Text, printed.text)
				if !regexp.MustCompile(pattern(c.Output)).MatchString(normal(printed.text)) {
					if *update {
						page.Text = strings.Replace(page.Text, "$ "+c.Text+c.Output, "$ "+c.Text+printed.text, 1)
						continue
					}
					t.Errorf("%s: %sprints\n%s\nand not, as the page says,\n%s", page.Name, c.Text, printed.text, c.Output)
				}
			}
			if installs {
				sandbox.requireInstalled(t)
			}
			if *update {
				require.NoError(t, os.WriteFile(filepath.Join(root, page.Name), []byte(page.Text), 0o644))
			}
			if missing != "" {
				skip.Test(t, missing+" is not installed") // all other commands of the page have run
			}
		})
	}
	for command := range elsewhere {
		assert.True(t, used[command], "no page has a command that begins with %q any more", command)
	}
	shipped.Terminate()
	shipped.Await(t)
	require.Regexp(t, pattern(begins), normal(shipped.real(shown(shipped.Log()))))
}

func commandsOf(t *testing.T, page handbook.Page) (commands []handbook.Command) {
	t.Helper()
	for _, block := range page.Blocks {
		if block.Language == "console" {
			found, err := block.Commands()
			require.NoError(t, err, "%s:%d", page.Name, block.Line)
			commands = append(commands, found...)
		}
	}
	return commands
}

// TestDocsNginxConfigurationsAreValid has nginx read every configuration of its own.
func TestDocsNginxConfigurationsAreValid(t *testing.T) {
	nginx := lab.RequireNginx(t)
	pages := lab.Must(handbook.Read(lab.Path(t, "")))(t)
	found := 0
	for _, page := range pages {
		for _, block := range page.Blocks {
			if block.Language != "nginx" {
				continue
			}
			found++
			dir := t.TempDir()
			file := filepath.Join(dir, "nginx.conf")
			// The certificate is the operator's own.
			server := regexp.MustCompile(`(?m)^\s*ssl_certificate.*\n| ssl;`).ReplaceAllString(block.Text, "")
			if server != block.Text {
				server = strings.ReplaceAll(server, "listen 443", "listen 127.0.0.1:8443;")
			}
			require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "pid %s/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n%s}\n", dir, server), 0o600))
			output, err := exec.Command(nginx, "-t", "-e", "stderr", "-p", dir, "-c", file).CombinedOutput()
			require.NoError(t, err, "%s:%d: %s", page.Name, block.Line, output)
		}
	}
	require.NotZero(t, found)
}
