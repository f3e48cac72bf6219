package payoffer_test

import (
	"bytes"
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sizes are the lines of production Go that each package may have. A commit that makes
// a package smaller lowers its number. An issue that adds a feature raises it once, in
// a commit that names the issue.
var sizes = map[string]int{
	".":                         3769,
	"agent":                     1007,
	"announce":                  1053,
	"buyer":                     832,
	"clock":                     108,
	"command":                   2730,
	"diagnose":                  532,
	"document":                  1409,
	"failpoint":                 119,
	"failpoint/testdata/victim": 15,
	"filelock":                  74,
	"gate":                      558,
	"ledger":                    5416,
	"ledger/accounting":         1185,
	"mpp":                       522,
	"observe":                   406,
	"observe/bitcoin":           3038,
	"observe/card":              1092,
	"observe/evm":               3272,
	"observe/manual":            322,
	"observe/source":            441,
	"observe/storefront":        514,
	"offer":                     2096,
	"operator":                  1368,
	"page":                      221,
	"picture":                   234,
	"pool":                      306,
	"rate":                      373,
	"report":                    515,
	"service":                   1417,
	"signature":                 560,
	"site":                      229,
	"text":                      259,
	"web":                       3739,
	"x402":                      3876,
}

func TestPackagesStayWithinTheirSize(t *testing.T) {
	lines := make(map[string]int)
	require.NoError(t, filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() == "payoffertest" {
			return cmp.Or(err, fs.SkipDir)
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(name)
		lines[filepath.ToSlash(filepath.Dir(name))] += bytes.Count(source, []byte("\n"))
		return err
	}))
	for pkg, n := range lines {
		limit, listed := sizes[pkg]
		assert.True(t, listed, "package %s has no limit of its lines", pkg)
		assert.LessOrEqual(t, n, limit, "lines of package %s", pkg)
	}
}
