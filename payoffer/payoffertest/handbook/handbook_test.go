package handbook

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// written is a repository with a README and pages.
func written(t *testing.T, readme string, pages map[string]string) string {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "payoffer", "docs"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, "README.md"), []byte(readme), 0o600))
	for name, text := range pages {
		require.NoError(t, os.WriteFile(filepath.Join(root, "payoffer", "docs", name), []byte(text), 0o600))
	}
	return root
}

func TestPagesComeInTheOrderOfTheReadme(t *testing.T) {
	root := written(t, "[b](payoffer/docs/b.md#x) [a](payoffer/docs/a.md) [b](payoffer/docs/b.md) [out](https://example.org/c.md) `[no](payoffer/docs/n.md)`\n",
		map[string]string{"a.md": "# A", "b.md": "# B"})
	pages, err := Read(root)
	require.NoError(t, err)
	var names []string
	for _, p := range pages {
		names = append(names, p.Name)
	}
	require.Equal(t, []string{"README.md", "payoffer/docs/b.md", "payoffer/docs/a.md"}, names)
}

func TestAPageThatNobodyWouldFindIsRefused(t *testing.T) {
	_, err := Read(written(t, "# Nothing", map[string]string{"lost.md": "# Lost"}))
	require.EqualError(t, err, "the README does not name payoffer/docs/lost.md")
}

func TestABlockThatIsNotClosedIsRefused(t *testing.T) {
	_, err := Read(written(t, "# One\n\n```sh\nls\n", nil))
	require.EqualError(t, err, "README.md:3: a block is not closed")
}

func TestAPageIsReadAsItsBlocksLinksAndAnchors(t *testing.T) {
	root := written(t, "[page](payoffer/docs/page.md)\n", map[string]string{
		"page.md": "# What it is, and `why`\n\n```yaml\n# no heading\na: 1\n```\nSee [above](#what) and [home](../../README.md#x).\n\n## After the_end\n",
	})
	pages, err := Read(root)
	require.NoError(t, err)
	require.Equal(t, []Block{{Line: 3, Language: "yaml", Text: "# no heading\na: 1\n"}}, pages[1].Blocks)
	require.Equal(t, []string{"payoffer/docs/page.md#what", "README.md#x"}, pages[1].Links())
	require.Equal(t, []string{"what-it-is-and-why", "after-the_end"}, pages[1].Anchors())
	require.NotContains(t, pages[1].Prose, "no heading")
}

func TestAConsoleIsItsCommandsAndWhatTheyPrint(t *testing.T) {
	commands, err := Block{Text: "$ one \\\n    two\nout\n\nmore\n$ three\n$ four\nend\n"}.Commands()
	require.NoError(t, err)
	require.Equal(t, []Command{{"one \\\n    two\n", "out\n\nmore\n"}, {"three\n", ""}, {"four\n", "end\n"}}, commands)

	_, err = Block{Text: "out\n"}.Commands()
	require.ErrorContains(t, err, "begins with a command")
}

func TestFieldsAreTheirComments(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a.go"), []byte("package a\n\ntype T struct {\n\t// One,\n\t// two.\n\tX, Y int\n\tz int\n}\n"), 0o600))
	fields, err := Fields(folder)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"T.X": "One, two.", "T.Y": "One, two.", "T.z": ""}, fields)
}
