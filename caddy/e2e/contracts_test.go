package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
)

func TestCommittedBytecodeMatchesSources(t *testing.T) {
	lab.RequireNode(t)
	folder := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "node", "contracts/build.mjs", folder).CombinedOutput()
	require.NoError(t, err, "%s", out)

	for _, name := range []string{"USDC.hex", "Multicall3.hex", "Wallet.hex", "WalletFactory.hex"} {
		committed, err := os.ReadFile(filepath.Join("contracts", name))
		require.NoError(t, err)
		built, err := os.ReadFile(filepath.Join(folder, name))
		require.NoError(t, err)
		require.Equal(t, string(built), string(committed),
			"%s does not match its source: run node build.mjs in caddy/e2e/contracts", name)
	}
}
