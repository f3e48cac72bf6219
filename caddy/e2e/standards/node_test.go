package standards

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/node"
)

// patience is how long a program may take: far more than it does on a busy machine.
const patience = 2 * time.Minute

// packages is the folder of the Node.js packages.
func packages(t *testing.T) string {
	t.Helper()
	lab.RequireNode(t)
	return lab.Path(t, "caddy/e2e/node")
}

// validate runs a script or a program of a package and reads its answer, one JSON value. The program may answer by its
// status alone, too. env are variables in the form NAME=value.
func validate(t *testing.T, into any, env []string, program string, args ...string) error {
	t.Helper()
	output, err := run(t, env, node.Newer(t), append([]string{program}, args...)...)
	if into != nil {
		require.NoError(t, json.Unmarshal(output, into), "%s", output)
	}
	return err
}

// run runs a program in the folder of the packages and returns what it wrote to standard output.
func run(t *testing.T, env []string, program string, args ...string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = packages(t)
	command.Env = append(env, "PATH="+os.Getenv("PATH"), "HOME="+t.TempDir())
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s %v wrote:\n%s", program, args, &stderr)
		}
	})
	return stdout.Bytes(), err
}

// trust lets a Node.js program trust the shop's certificate.
func (s *shop) trust() []string { return []string{"NODE_EXTRA_CA_CERTS=" + s.authority} }

// bin is the program of a package.
func bin(name string) string { return filepath.Join("node_modules", ".bin", name) }
