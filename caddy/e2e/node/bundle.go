package node

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
)

var bundled struct {
	sync.Mutex
	done bool
}

// Bundle returns the path of a script in one file with all that it imports: to load the hundreds of modules of a client
// takes four times as long. The files stand in bin/e2e/node for all packages of tests, until a script or a package changes.
// The test is skipped without Node.js and the packages of the script.
func Bundle(t testing.TB, script string) string {
	t.Helper()
	lab.RequireNode(t)
	lab.RequirePackages(t, path.Join("caddy/e2e/node", path.Dir(script)))
	folder := lab.Path(t, "bin/e2e/node")
	bundled.Lock()
	defer bundled.Unlock()
	if !bundled.done {
		require.NoError(t, os.MkdirAll(folder, 0o755))
		defer lab.Lock(t, filepath.Join(folder, "lock"))()
		source := lab.Path(t, "caddy/e2e/node")
		var scripts []string
		sum := sha256.New()
		for _, folder := range []string{".", "cloudflare"} {
			lock := filepath.Join(source, folder, "node_modules/.package-lock.json")
			if _, err := os.Stat(lock); err != nil {
				continue // nothing in the folder can be bundled
			}
			files, err := filepath.Glob(filepath.Join(source, folder, "*.mjs"))
			require.NoError(t, err)
			for _, file := range append(files, lock) {
				content, err := os.ReadFile(file)
				require.NoError(t, err)
				sum.Write(content)
				if filepath.Ext(file) == ".mjs" {
					scripts = append(scripts, file)
				}
			}
		}
		stamp, state := filepath.Join(folder, "sources.sha256"), hex.EncodeToString(sum.Sum(nil))
		if before, err := os.ReadFile(stamp); err != nil || string(before) != state {
			command := exec.CommandContext(t.Context(), filepath.Join(source, "node_modules/.bin/esbuild"), append(scripts,
				"--bundle", "--platform=node", "--format=esm", "--out-extension:.js=.mjs", "--log-level=error", "--outbase="+source, "--outdir="+folder,
				// Some packages are CommonJS, and require what Node.js has.
				`--banner:js=import { createRequire } from "node:module"; const require = createRequire(import.meta.url);`)...)
			output, err := command.CombinedOutput()
			require.NoError(t, err, "%s", output)
			require.NoError(t, os.WriteFile(stamp, []byte(state), 0o600))
		}
		bundled.done = true
	}
	return filepath.Join(folder, script)
}
