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
	".":                         3821,
	"agent":                     977,
	"announce":                  1101,
	"buyer":                     877,
	"clock":                     108,
	"command":                   2801,
	"diagnose":                  668,
	"document":                  1427,
	"failpoint":                 119,
	"failpoint/testdata/victim": 15,
	"filelock":                  74,
	"gate":                      720,
	"ledger":                    5499,
	"ledger/accounting":         1287,
	"mpp":                       565,
	"observe":                   387,
	"observe/bitcoin":           3028,
	"observe/card":              1166,
	"observe/evm":               3249,
	"observe/manual":            361,
	"observe/source":            410,
	"observe/storefront":        511,
	"offer":                     2138,
	"operator":                  1431,
	"page":                      223,
	"picture":                   234,
	"pool":                      281,
	"rate":                      373,
	"report":                    513,
	"service":                   1434,
	"signature":                 560,
	"site":                      230,
	"text":                      259,
	"web":                       4085,
	"x402":                      3979,
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
