package failpoint_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
)

// parse reads one Go file.
func parse(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	return file
}

// constants are the declared points: the name in Go and the value.
func constants(t *testing.T) map[string]failpoint.Point {
	t.Helper()
	found := map[string]failpoint.Point{}
	for _, declaration := range parse(t, "point.go").Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			constant := spec.(*ast.ValueSpec)
			if constant.Type == nil {
				continue // not a point
			}
			value, err := strconv.Unquote(constant.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			found[constant.Names[0].Name] = failpoint.Point(value)
		}
	}
	return found
}

// hits counts the calls failpoint.Hit(failpoint.Name) in the code of this module, by name.
func hits(t *testing.T) map[string]int {
	t.Helper()
	found := map[string]int{}
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.Name() == "testdata" {
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		ast.Inspect(parse(t, path), func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 || selected(call.Fun) != "Hit" {
				return true
			}
			found[selected(call.Args[0])]++
			return true
		})
		return nil
	}))
	return found
}

// selected is the name in failpoint.Name, or empty.
func selected(expression ast.Expr) string {
	selector, ok := expression.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if name, ok := selector.X.(*ast.Ident); !ok || name.Name != "failpoint" {
		return ""
	}
	return selector.Sel.Name
}

func TestPointHasOneCallSite(t *testing.T) {
	want := map[string]int{}
	var declared []failpoint.Point
	for name, point := range constants(t) {
		want[name] = 1
		declared = append(declared, point)
	}
	require.ElementsMatch(t, declared, failpoint.Points(), "Points lists what is declared")
	require.Equal(t, want, hits(t))
}

// build compiles the victim and returns its path.
func build(t *testing.T, tags string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "victim.exe")
	output, err := exec.Command("go", "build", "-tags", tags, "-o", path, "./testdata/victim").CombinedOutput()
	require.NoError(t, err, "%s", output)
	return path
}

// run returns what the victim wrote before it ended, and whether it was killed.
func run(t *testing.T, victim, value string) (passes string, killed bool) {
	t.Helper()
	command := exec.Command(victim)
	command.Env = append(os.Environ(), failpoint.Variable+"="+value)
	output, err := command.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status, ok := exit.Sys().(syscall.WaitStatus)
		return string(output), ok && status.Signaled() && status.Signal() == syscall.SIGKILL
	}
	require.NoError(t, err)
	return string(output), false
}

func TestNamedHitKillsTaggedBuild(t *testing.T) {
	victim := build(t, "failpoints")
	for value, want := range map[string]struct {
		passes string
		killed bool
	}{
		"":                    {"123", false},
		"pay.decoded":         {"", true},
		"pay.decoded:1":       {"", true},
		"pay.decoded:3":       {"12", true},
		"pay.decoded:4":       {"123", false},
		"pay.verified":        {"123", false},
		"pay.decoded:0":       {"", false}, // panics, as the next ones
		"pay.decoded:x":       {"", false},
		"no.such.point":       {"", false},
		"transaction.begun:1": {"123", false},
	} {
		t.Run(value, func(t *testing.T) {
			passes, killed := run(t, victim, value)
			require.Equal(t, want.passes, passes)
			require.Equal(t, want.killed, killed)
		})
	}
}

func TestNormalBuildHasNoFailpoints(t *testing.T) {
	victim := build(t, "")
	passes, killed := run(t, victim, "pay.decoded")
	require.Equal(t, "123", passes)
	require.False(t, killed)
	for trace, normal := range map[string]bool{failpoint.Variable: false, "pay.decoded": false, "main.main": true} {
		code, err := os.ReadFile(victim)
		require.NoError(t, err)
		require.Equal(t, normal, strings.Contains(string(code), trace), trace)
	}
}
