package payoffer_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// module is what the import paths of this repository begin with.
const module = "github.com/payoffer/caddy-pay-offer/"

// layers are the rooms of the plugin from the roof to the ground, as they are
// told in the page of the architecture. A room imports only rooms of lower layers.
var layers = [][]string{
	{"payoffer"},
	{"payoffer/command"},
	{"payoffer/diagnose"},
	{"payoffer/service"},
	{"payoffer/buyer", "payoffer/operator", "payoffer/web"},
	{"payoffer/agent", "payoffer/gate", "payoffer/page"},
	{
		"payoffer/mpp", "payoffer/x402", "payoffer/announce", "payoffer/observe", "payoffer/observe/bitcoin", "payoffer/observe/card",
		"payoffer/observe/evm", "payoffer/observe/lightning", "payoffer/observe/manual", "payoffer/observe/storefront",
	},
	{"payoffer/report"},
	{"payoffer/ledger", "payoffer/ledger/accounting", "payoffer/rate", "payoffer/document", "payoffer/signature", "payoffer/site"},
	{"payoffer/picture"},
	{"payoffer/text"},
	// Prices and key documents are fetched as payments are, so the engine of the
	// observers knows none of the rooms.
	{"payoffer/offer", "payoffer/observe/source", "payoffer/failpoint", "payoffer/filelock"},
}

// An edge is an import of one room by another.
type edge struct{ from, to string }

// sideways are the imports within a layer, beside those of the observers, which
// all stand on observe.
var sideways = map[edge]string{
	{"payoffer/mpp", "payoffer/x402"}:                 "a credential of the Payment scheme is settled as the x402 payment that it is",
	{"payoffer/ledger", "payoffer/ledger/accounting"}: "SQL stores what the rules of the books decide",
}

// caddyRooms are the packages that know Caddy: the plugin's and the command, main
// with its demo, and what a benchmark holds against the plugin.
var caddyRooms = []string{"payoffer", "payoffer/command", "caddy", "caddy/bare", demoRoom}

// demoRoom is where demos are played, for pretend money.
const demoRoom = "caddy/demo"

// pure are the rooms that do no I/O and take no clock which they were not given.
var pure = []string{"payoffer/offer", "payoffer/text", "payoffer/picture", "payoffer/page", "payoffer/document", "payoffer/ledger/accounting", "payoffer/report"}

// fromOutside is what every black-box test may use beside the stand-ins: the
// paths and rails of an offer, the texts of its pages, and the names of the points at
// which a server is killed.
var fromOutside = []string{"payoffer/offer", "payoffer/text", "payoffer/failpoint"}

// inProcess are the black-box tests that use more, and why each does. Most run
// a part of the plugin against a counterpart that only their module can depend
// on: another module, so that it never reaches those who compile the plugin.
var inProcess = map[string]struct {
	reason string
	rooms  []string
}{
	"caddy/e2e":            {"documents of many offers before published schemas and parsers", []string{"document", "web"}},
	"caddy/e2e/agents":     {"the tool is called by its name, and what time alone decides is written into the ledger", []string{"document", "ledger", "ledger/accounting"}},
	"caddy/e2e/bench":      {"the ledger is filled with receipts", []string{"ledger"}},
	"caddy/e2e/browser":    {"pages of an offer whose price changes while somebody looks, and of payments that end as asked for", []string{"web", "x402"}},
	"caddy/e2e/docs":       {"a ledger with the movements of a year", []string{"ledger", "observe/manual"}},
	"caddy/e2e/crash":      {"the ledger that a killed server left is read, and payments are known by their headers", []string{"ledger", "x402"}},
	"caddy/e2e/histories":  {"settlement, its observer and a gate in random histories, in a time of their own", []string{"gate", "ledger", "observe", "observe/evm", "web", "x402"}},
	"caddy/e2e/settlement": {"settlement and its observer on a simulated chain", []string{"ledger", "observe/evm", "x402"}},
	"caddy/e2e/showcase":   {"every page, with receipts that no test machine has", []string{"gate", "ledger", "ledger/accounting", "observe", "web", "x402"}},
	"caddy/e2e/standards":  {"the observer before the processor's own library, and images of every rail before another decoder", []string{"ledger", "observe", "observe/card", "web"}},
	"caddy/e2e/soak":       {"the ledger is compared with the chain when all is over", []string{"ledger"}},
}

func TestImportsPointDownwards(t *testing.T) {
	for from, r := range house(t) {
		if !strings.HasPrefix(from, "payoffer") || isStandIn(from) {
			continue
		}
		for _, f := range r.files {
			for _, to := range f.rooms() {
				switch {
				case isStandIn(to):
					assert.True(t, f.test, "%s imports %s, which is for tests", f.name, to)
				case to == from && f.test:
				case layer(to) > layer(from) || mayLookSideways(from, to):
				default:
					t.Errorf("%s imports %s, which is not below %s", f.name, to, from)
				}
			}
		}
	}
}

func TestCaddyImportsOnlyInRootAndCommand(t *testing.T) {
	for name, r := range house(t) {
		for _, f := range r.files {
			for imported := range f.imports {
				if f.test && imported == "github.com/caddyserver/certmagic" {
					continue // a real storage
				}
				assert.False(t, strings.HasPrefix(imported, "github.com/caddyserver/") && !slices.Contains(caddyRooms, name),
					"%s imports %s", f.name, imported)
			}
		}
	}
}

// A server that xcaddy builds has a main of its own.
func TestReleaseBuildHasNoDemo(t *testing.T) {
	for name, r := range house(t) {
		for _, f := range r.files {
			assert.True(t, name == "caddy" || name == demoRoom || !slices.Contains(f.rooms(), demoRoom), "%s imports the demo", f.name)
		}
	}
	for tags, has := range map[string]bool{"": true, "release": false} {
		list := exec.Command("go", "list", "-deps", "-tags", tags, "../caddy")
		out, err := list.Output()
		require.NoError(t, err)
		require.Equal(t, has, slices.Contains(strings.Fields(string(out)), module+demoRoom), "tags %q", tags)
		require.Contains(t, strings.Fields(string(out)), module+"payoffer")
	}
}

func TestPurePackagesHaveNoIOOrClock(t *testing.T) {
	forbidden := []string{
		"database/sql", "io/fs", "log", "log/slog", "math/rand", "math/rand/v2", "crypto/rand", "net", "net/http/httptrace",
		"net/http/httputil", "os", "os/exec", "os/signal", "path/filepath", "syscall",
	}
	clock := []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}
	rooms := house(t)
	for _, name := range pure {
		if rooms[name] == nil {
			continue
		}
		for _, f := range rooms[name].files {
			if f.test {
				continue
			}
			for _, imported := range forbidden {
				assert.NotContains(t, f.imports, imported, f.name)
			}
			for _, used := range f.uses(t, "time") {
				assert.NotContains(t, clock, used, "%s uses time.%s", f.name, used)
			}
			// Methods and status codes are names; all else of net/http is a client or a server.
			for _, used := range f.uses(t, "net/http") {
				assert.True(t, strings.HasPrefix(used, "Method") || strings.HasPrefix(used, "Status"), "%s uses http.%s", f.name, used)
			}
		}
	}
}

func TestEndToEndImportsAreListed(t *testing.T) {
	for name, r := range house(t) {
		if !strings.HasPrefix(name, "caddy/e2e") {
			continue
		}
		for _, f := range r.files {
			for _, to := range f.rooms() {
				used, ofPlugin := strings.CutPrefix(to, "payoffer/")
				if ofPlugin && !isStandIn(to) && !slices.Contains(fromOutside, to) {
					assert.Contains(t, inProcess[name].rooms, used, "%s imports %s", f.name, to)
				}
			}
		}
	}
}

func TestPackagesHaveLayerAndComment(t *testing.T) {
	layout, err := os.ReadFile("docs/developing/architecture.md")
	require.NoError(t, err)
	for name, r := range house(t) {
		if name == "caddy" || strings.HasPrefix(name, "caddy/") {
			continue
		}
		assert.True(t, layer(name) >= 0 || isStandIn(name), "%s has no place in the layers", name)
		assert.Truef(t, r.documented, "%s has no comment that says what the package is for", name)
		if strings.Count(name, "/") < 2 || name == "payoffer/ledger/accounting" || name == "payoffer/observe/source" {
			assert.True(t, strings.Contains(string(layout), "\n"+name+"/ "), "the layout has no line for %s", name)
		}
	}
}

// layer counts from the roof, and is -1 for what stands in none.
func layer(name string) int {
	return slices.IndexFunc(layers, func(rooms []string) bool { return slices.Contains(rooms, name) })
}

// isStandIn reports whether a package is one that only tests import, and that
// may import what it stands in for.
func isStandIn(name string) bool { return strings.HasPrefix(name+"/", "payoffer/payoffertest/") }

func mayLookSideways(from, to string) bool {
	if _, ok := sideways[edge{from, to}]; ok {
		return true
	}
	return strings.HasPrefix(from, "payoffer/observe/") && to == "payoffer/observe"
}

// A room is a package of this repository, for every build tag.
type room struct {
	files      []file
	documented bool
}

// A file is one source file and what it imports: import paths and the names
// under which they are used.
type file struct {
	name    string
	test    bool
	imports map[string]string
}

// house reads every package of both modules, by its folder.
func house(t *testing.T) map[string]*room {
	t.Helper()
	rooms := map[string]*room{}
	for _, top := range []string{"payoffer", "caddy"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", top), func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "node_modules"):
				return fs.SkipDir
			case entry.IsDir() || filepath.Ext(name) != ".go":
				return nil
			}
			folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(name)), "../")
			if rooms[folder] == nil {
				rooms[folder] = new(room)
			}
			return rooms[folder].read(name)
		}))
	}
	require.NotEmpty(t, rooms)
	return rooms
}

func (r *room) read(name string) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	f := file{name: name, test: strings.HasSuffix(name, "_test.go"), imports: map[string]string{}}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		f.imports[imported] = path.Base(imported)
		if spec.Name != nil {
			f.imports[imported] = spec.Name.Name
		}
	}
	r.files = append(r.files, f)
	r.documented = r.documented || strings.HasPrefix(parsed.Doc.Text(), "Package "+parsed.Name.Name+" ")
	return nil
}

// rooms are the packages of this repository that the file imports.
func (f file) rooms() (rooms []string) {
	for imported := range f.imports {
		if name, ok := strings.CutPrefix(imported, module); ok {
			rooms = append(rooms, name)
		}
	}
	return rooms
}

// uses are the names of a package that the file mentions.
func (f file) uses(t *testing.T, imported string) (names []string) {
	t.Helper()
	local, ok := f.imports[imported]
	if !ok {
		return nil
	}
	require.NotEqual(t, ".", local, f.name)
	parsed, err := parser.ParseFile(token.NewFileSet(), f.name, nil, 0)
	require.NoError(t, err)
	ast.Inspect(parsed, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			if x, ok := selector.X.(*ast.Ident); ok && x.Name == local {
				names = append(names, selector.Sel.Name)
			}
		}
		return true
	})
	return names
}
