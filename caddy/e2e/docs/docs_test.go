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

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/handbook"
)

var update = flag.Bool("update", false, "write into the pages what their commands print")

// start is the command that starts the server, whose log is what it prints.
const start = "go run ./caddy run"

// elsewhere are the commands that are not run here, and why.
var elsewhere = map[string]string{
	start:                    "it runs while the others do; what it prints is compared at the end",
	"make -f xcaddy.mk test": "it runs this",
	"FULL=1 make -f xcaddy.mk test TESTFLAGS='-timeout 3h'":                 "it runs this, for hours",
	"(cd caddy/e2e && go test ./docs -update)":                              "it is this",
	"go test ./payoffer -run PageOfTheOptions -update":                      "the test that it runs compares the page",
	"caddy pay-offer watch":                                                 "it goes on until it is stopped; caddy/e2e/announce follows it",
	"sudo systemctl stop pay-offer":                                         "there is no service here",
	"mv l.db old.db; mv l.db-wal old.db-wal":                                "the files of a server that was killed; caddy/e2e/crash reads such",
	"caddy pay-offer ledger restore --create monday.db":                     "the server runs; the page restores under another name, too",
	"caddy pay-offer ledger move --create --to 'postgres {env.LEDGER_DSN}'": "payoffer/command_ledger_test.go moves a ledger to PostgreSQL",
	"caddy pay-offer init":                                                  "caddy/e2e/init answers the questions",
	"caddy pay-offer init < answers":                                        "caddy/e2e/init answers the questions",

	"caddy pay-offer check --live --config /etc/caddy/Caddyfile":                                                                             "caddy/e2e/live looks at servers behind proxies",
	"go run ./caddy pay-offer pay http://localhost:8402/v1/sponsor --demo":                                                                   "caddy/e2e/demo plays it; what is released has none",
	"go run ./caddy pay-offer received":                                                                                                      "caddy/e2e/demo plays it; what is released has none",
	"curl -si -H 'Host: pay.example.org' http://127.0.0.1:8080/ | head -2":                                                                   "caddy/e2e/packaging and caddy/e2e/acme run what is packed and shipped",
	"sudo useradd --system --home-dir /var/lib/pay-offer --shell /usr/sbin/nologin pay-offer":                                                "caddy/e2e/packaging and caddy/e2e/acme run what is packed and shipped",
	"sudo install -m 600 /dev/null /etc/pay-offer/environment":                                                                               "caddy/e2e/packaging and caddy/e2e/acme run what is packed and shipped",
	"sudo systemctl enable --now pay-offer":                                                                                                  "caddy/e2e/packaging and caddy/e2e/acme run what is packed and shipped",
	"systemd-analyze security pay-offer | tail -1":                                                                                           "caddy/e2e/packaging and caddy/e2e/acme run what is packed and shipped",
	"docker build -f caddy/package/Dockerfile -t pay-offer .":                                                                                "caddy/e2e/packaging and caddy/e2e/acme run what is packed and shipped",
	"docker run --name pay-offer --env-file pay-offer.env -p 80:80 -p 443:443 -p 443:443/udp -v pay-offer:/data --stop-timeout 60 pay-offer": "caddy/e2e/packaging and caddy/e2e/acme run what is packed and shipped",
	"docker exec pay-offer caddy pay-offer received":                                                                                         "caddy/e2e/packaging and caddy/e2e/acme run what is packed and shipped",
	"go run ./caddy/package/release linux/amd64":                                                                                             "caddy/e2e/packaging and caddy/e2e/acme run what is packed and shipped",
	"./caddy build-info | grep caddy-pay-offer":                                                                                              "caddy/e2e/packaging and caddy/e2e/acme run what is packed and shipped",
}

// refused are the commands that end with an error, which the page shows.
var refused = map[string]bool{
	"BASE_URL=https://pay.example.org go run ./caddy pay-offer check": true,
}

func TestEveryCommandOfTheDocumentationPrintsWhatItSays(t *testing.T) {
	root := lab.Path(t, "")
	pages, err := handbook.Read(root)
	require.NoError(t, err)
	// Nothing leaves this machine, so that all others are out of reach everywhere.
	offline := []string{"HTTP_PROXY=http://127.0.0.1:1", "HTTPS_PROXY=http://127.0.0.1:1"}
	shipped := server.StartShipped(t, offline...)
	desk := newDesk(t, root, shipped, offline)
	used := map[string]bool{}
	var begins string
	for _, page := range pages {
		t.Run(page.Name, func(t *testing.T) {
			commands := commandsOf(t, page)
			var run []handbook.Command
			for _, c := range commands {
				text := strings.TrimSpace(c.Text)
				if text == start {
					begins = c.Output
				}
				if used[text] = true; elsewhere[text] == "" {
					run = append(run, c)
				}
			}
			for i, printed := range desk.run(t, page.Name, run) {
				c := run[i]
				require.Equal(t, refused[strings.TrimSpace(c.Text)], printed.status != 0, "%s%s", c.Text, printed.text)
				if !regexp.MustCompile(pattern(c.Output)).MatchString(normal(printed.text)) {
					if *update {
						page.Text = strings.Replace(page.Text, "$ "+c.Text+c.Output, "$ "+c.Text+printed.text, 1)
						continue
					}
					t.Errorf("%s: %sprints\n%s\nand not, as the page says,\n%s", page.Name, c.Text, printed.text, c.Output)
				}
			}
			if *update {
				require.NoError(t, os.WriteFile(filepath.Join(root, page.Name), []byte(page.Text), 0o644))
			}
		})
	}
	for command := range elsewhere {
		require.True(t, used[command], "no page has the command %q any more", command)
	}
	for command := range refused {
		require.True(t, used[command], "no page has the command %q any more", command)
	}
	shipped.Terminate()
	shipped.Await(t)
	require.Regexp(t, pattern(begins), normal(desk.real.Replace(shown(shipped.Log()))))
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

// TestTheProxyOfTheDocumentationIsOne has nginx read every configuration of its own.
func TestTheProxyOfTheDocumentationIsOne(t *testing.T) {
	nginx := lab.RequireNginx(t)
	pages, err := handbook.Read(lab.Path(t, ""))
	require.NoError(t, err)
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
