package handbook

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// written is a repository with an index and pages.
func written(t *testing.T, text string, pages map[string]string) string {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{index: text}
	for _, name := range outside {
		files[name] = ""
	}
	for name, text := range pages {
		files["payoffer/docs/"+name] = text
	}
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	return root
}

func TestReadOrdersPagesByIndex(t *testing.T) {
	root := written(t, "[b](guides/b.md#x) [a](a.md) [b](guides/b.md) [out](https://example.org/c.md) `[no](n.md)`\n",
		map[string]string{"a.md": "# A", "guides/b.md": "# B"})
	pages, err := Read(root)
	require.NoError(t, err)
	var names []string
	for _, p := range pages {
		names = append(names, p.Name)
	}
	require.Equal(t, append(outside, index, "payoffer/docs/guides/b.md", "payoffer/docs/a.md"), names)
}

func TestPageMissingFromIndexIsRefused(t *testing.T) {
	_, err := Read(written(t, "# Nothing", map[string]string{"guides/lost.md": "# Lost"}))
	require.EqualError(t, err, "payoffer/docs/README.md does not name payoffer/docs/guides/lost.md")
}

func TestUnclosedBlockIsRefused(t *testing.T) {
	_, err := Read(written(t, "# One\n\n```sh\nls\n", nil))
	require.EqualError(t, err, "payoffer/docs/README.md:3: a block is not closed")
}

func TestPageBlocksLinksAndAnchors(t *testing.T) {
	root := written(t, "[page](page.md)\n", map[string]string{
		"page.md": "# What it is, and `why`\n\n```yaml\n# no heading\na: 1\n```\nSee [above](#what) and [home](../../README.md#x).\n\n## After the_end\n",
	})
	pages, err := Read(root)
	require.NoError(t, err)
	page := pages[len(pages)-1]
	require.Equal(t, []Block{{Line: 3, Language: "yaml", Text: "# no heading\na: 1\n"}}, page.Blocks)
	require.Equal(t, []string{"payoffer/docs/page.md#what", "README.md#x"}, page.Links())
	require.Equal(t, []string{"what-it-is-and-why", "after-the_end"}, page.Anchors())
	require.NotContains(t, page.Prose, "no heading")
}

func TestBlockCommands(t *testing.T) {
	commands, err := Block{Text: "$ one \\\n    two\nout\n\nmore\n$ three\n$ four\nend\n"}.Commands()
	require.NoError(t, err)
	require.Equal(t, []Command{{"one \\\n    two\n", "out\n\nmore\n"}, {"three\n", ""}, {"four\n", "end\n"}}, commands)

	_, err = Block{Text: "out\n"}.Commands()
	require.ErrorContains(t, err, "begins with a command")
}

func TestFieldsReturnsComments(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "a.go"), []byte("package a\n\ntype T struct {\n\t// One,\n\t// two.\n\tX, Y int\n\tz int\n}\n"), 0o600))
	fields, err := Fields(folder)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"T.X": "One, two.", "T.Y": "One, two.", "T.z": ""}, fields)
}
