// Package packaging checks what stands around the server where it is installed.
package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
	"github.com/payoffer/caddy-pay-offer/caddy/e2e/server"
)

func TestSystemdTakesTheUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		lab.Skip(t, "systemd-analyze is not installed")
	}
	unit, err := os.ReadFile(lab.Path(t, "caddy/package/pay-offer.service"))
	require.NoError(t, err)
	// It must be there to be taken.
	const program = "=/usr/local/bin/caddy "
	require.Equal(t, 2, strings.Count(string(unit), program))
	file := filepath.Join(t.TempDir(), "pay-offer.service")
	require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(string(unit), program, "="+server.Released(t)+" ")), 0o600))
	said, err := exec.Command(analyze, "verify", file).CombinedOutput()
	require.NoError(t, err, "%s", said)
	require.NotContains(t, string(said), filepath.Base(file), "what is no error, but a mistake")

	said, err = exec.Command(analyze, "security", "--offline=true", "--threshold=20", file).CombinedOutput()
	require.NoError(t, err, "the unit exposes more than 2.0: %s", said)
}

// What a service is given is declared, and read by somebody.
func TestTheCompositionIsComplete(t *testing.T) {
	text, err := os.ReadFile(lab.Path(t, "caddy/package/compose.yaml"))
	require.NoError(t, err)
	var composition struct {
		Services map[string]struct {
			Build       struct{ Context, Dockerfile string }
			Environment map[string]string
			Secrets     []string
			Volumes     []string
			DependsOn   map[string]any `yaml:"depends_on"`
		}
		Volumes map[string]any
		Secrets map[string]any
	}
	require.NoError(t, yaml.Unmarshal(text, &composition))
	for name, service := range composition.Services {
		for _, secret := range service.Secrets {
			require.Contains(t, composition.Secrets, secret, name)
			require.Contains(t, strings.Join(values(service.Environment), " "), "/run/secrets/"+secret, name)
		}
		for _, volume := range service.Volumes {
			require.Contains(t, composition.Volumes, strings.Split(volume, ":")[0], name)
		}
		for other := range service.DependsOn {
			require.Contains(t, composition.Services, other, name)
		}
	}
	offer := composition.Services["pay-offer"]
	folder := filepath.Join(lab.Path(t, "caddy/package"), offer.Build.Context)
	require.Equal(t, lab.Path(t, ""), folder)
	require.FileExists(t, filepath.Join(folder, offer.Build.Dockerfile))
	shipped, err := os.ReadFile(lab.Path(t, "caddy/package/Caddyfile"))
	require.NoError(t, err)
	for variable := range offer.Environment {
		require.Regexp(t, `\{\$`+regexp.QuoteMeta(variable)+`[:}]`, string(shipped))
	}
}

func values(of map[string]string) (all []string) {
	for _, value := range of {
		all = append(all, value)
	}
	return all
}
