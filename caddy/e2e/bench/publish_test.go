package bench

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

const introduction = `# Benchmarks

What the built binary costs beside what it can be held against, all in one run on loopback: a bare handler of Caddy that writes the
same bytes, Caddy's own ` + "`respond`" + `, the reference seller ` + "`@x402/express`" + `, a bare server of the official MCP library, and bare
commits. Made by ` + "`make -f xcaddy.mk bench WRITE=1`" + `.

- The sides take short turns, and the figures are medians with the least and the most of the rounds. Ratios of one run alone mean
  something; absolute numbers tell of the machine and of what else it did.
- The processor's time of a request is read from the process's own clock. For documents, above 1 is cheaper than the other side.
- Buyers pay the next payment when the last is answered, with payments that were signed before. One stub is the facilitator of
  all: it takes 5 ms a call, and settles nothing. No chain is read, so that each payment stays a facilitator's word. The reference
  seller keeps no books.
- The own time of a paid request is what its buyer waits, over HTTP and with two calls of a facilitator, less what the
  facilitator takes; two bare commits go to the database straight.
- A million receipts are recorded with ` + "`FULL=1`" + ` alone.
`

// publish writes the page of the benchmarks and its charts.
func (t *table) publish(b *testing.B) {
	var page strings.Builder
	page.WriteString(introduction + "\n| Of the run | |\n|---|---|\n")
	for _, fact := range facts(b) {
		fmt.Fprintf(&page, "| %s | %s |\n", fact[0], fact[1])
	}
	page.WriteString("\n| Figure | Median (least … most) | Goal | In absolute numbers |\n|---|---|---|---|\n")
	for _, l := range t.lines {
		fmt.Fprintf(&page, "| %s | %s | %s | %s |\n", l.figure, l.value, l.goal, l.beside)
	}
	folder := lab.Path(b, "payoffer/benchmarks")
	require.NoError(b, os.MkdirAll(folder, 0o755))
	for _, c := range t.charts {
		require.NoError(b, os.WriteFile(filepath.Join(folder, c.file), []byte(c.svg()), 0o644))
		fmt.Fprintf(&page, "\n![%s](benchmarks/%s)\n", c.title, c.file)
	}
	require.NoError(b, os.WriteFile(lab.Path(b, "payoffer/BENCHMARKS.md"), []byte(page.String()), 0o644))
}

// facts are what a run depends on, by name.
func facts(b *testing.B) [][2]string {
	command := "make -f xcaddy.mk bench WRITE=1"
	if *rows != "" {
		command += " ROWS=" + *rows
	}
	if os.Getenv("FULL") == "1" {
		command = "FULL=1 " + command
	}
	info, err := buildinfo.ReadFile(server.Released(b))
	require.NoError(b, err)
	caddy := ""
	for _, m := range info.Deps {
		if m.Path == "github.com/caddyserver/caddy/v2" {
			caddy = m.Version
		}
	}
	return [][2]string{
		{"Date", time.Now().UTC().Format(time.DateOnly)},
		{"Command", fmt.Sprintf("`%s ROUNDS=%d`", command, *rounds)},
		{"Machine", fmt.Sprintf("%s, %d processors, Linux %s", field(b, "/proc/cpuinfo", "model name"), runtime.NumCPU(), output("uname", "-r"))},
		{"Load before (1 minute)", atStart},
		{"Go, Caddy", runtime.Version() + ", " + caddy},
		{"Node.js, @x402/express", output("node", "--version") + ", " + installed(b, "@x402/express")},
		{"PostgreSQL", output("sh", "-c", `"$(command -v postgres || ls -d /usr/lib/postgresql/*/bin/postgres | tail -n 1)" --version`) + ", in memory"},
	}
}

// atStart is how many processes wanted a processor when the run began.
var atStart = func() string {
	load, _ := os.ReadFile("/proc/loadavg") // empty elsewhere
	first, _, _ := strings.Cut(string(load), " ")
	return first
}()

// field is the first value of a name in a file of lines.
func field(b *testing.B, file, name string) string {
	data, err := os.ReadFile(file)
	require.NoError(b, err)
	for line := range strings.Lines(string(data)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// output is what a command prints, a dash without it.
func output(name string, arguments ...string) string {
	out, err := exec.Command(name, arguments...).Output()
	if err != nil {
		return "–"
	}
	return strings.TrimSpace(string(out))
}

// installed is the version of a package of Node.js.
func installed(b *testing.B, name string) string {
	var described struct{ Version string }
	data, err := os.ReadFile(lab.Path(b, "caddy/e2e/node/node_modules/"+name+"/package.json"))
	require.NoError(b, err)
	require.NoError(b, json.Unmarshal(data, &described))
	return described.Version
}
