package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/handbook"
)

// The test applies the blocks of the page to a copy of the repository and runs its commands. A Go
// block is a file, which its first line names; a diff changes a file.
func TestAddPaymentMethodPageIsExecuted(t *testing.T) {
	if os.Getenv("PAY_OFFER_NO_SKIP") != "1" && os.Getenv("FULL") != "1" {
		t.Skip("it compiles a copy of the repository, which takes a minute; .ci/run and FULL=1 run it")
	}
	root, folder := lab.Path(t, ""), t.TempDir()
	copyRepository(t, root, folder)
	pages := lab.Must(handbook.Read(root))(t)
	page := pages[slices.IndexFunc(pages, func(p handbook.Page) bool { return p.Name == "payoffer/docs/developing/add-a-payment-method.md" })]
	run := func(input, name string, arguments ...string) {
		command := exec.Command(name, arguments...)
		command.Dir, command.Stdin = folder, strings.NewReader(input)
		output, err := command.CombinedOutput()
		require.NoError(t, err, "%s %s\n%s\n%s", name, arguments, input, output)
	}
	production := 0
	for _, block := range page.Blocks {
		file := ""
		switch block.Language {
		case "go":
			first, rest, _ := strings.Cut(block.Text, "\n\n")
			file = strings.TrimPrefix(first, "// ")
			require.NoFileExists(t, filepath.Join(folder, file))
			require.NoError(t, os.WriteFile(filepath.Join(folder, file), []byte(rest), 0o600))
		case "diff":
			first, _, _ := strings.Cut(block.Text, "\n")
			file = strings.TrimPrefix(first, "--- a/")
			run(block.Text, "git", "apply", "-")
		case "console":
			for _, command := range lab.Must(block.Commands())(t) {
				run("", "bash", "-c", command.Text)
			}
		}
		if file != "" && !strings.HasSuffix(file, "_test.go") && !strings.Contains(file, "/payoffertest/") {
			production++
		}
	}
	require.LessOrEqual(t, production, 5, "a payment method is in few files")
}

// copyRepository copies the files of a clone without its history and the modules of Node.js.
func copyRepository(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(from, func(name string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(name, from))
		switch {
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules"):
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(target, 0o700)
		case !entry.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o600)
	}))
}
