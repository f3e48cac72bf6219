package standards

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/caddy/e2e/lab"
)

func TestTheSkillIsValid(t *testing.T) {
	s := openShop(t, moreRails)
	skill := s.save(t, "/skills/pay/SKILL.md", "pay/SKILL.md")
	require.NoError(t, validate(t, nil, nil, bin("skills-ref"), "validate", filepath.Dir(skill)))

	misplaced := s.save(t, "/skills/pay/SKILL.md", "another-name/SKILL.md")
	require.Error(t, validate(t, nil, nil, bin("skills-ref"), "validate", filepath.Dir(misplaced)), "the validator checks nothing")
}

// TestNPMListsEveryFundingAddress installs the package document in a project and asks npm how to fund it.
func TestNPMListsEveryFundingAddress(t *testing.T) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		lab.Skip(t, "npm is not installed")
	}
	s := openShop(t, moreRails)
	served := s.get(t, "/package.json")
	var funded struct{ Name string }
	require.NoError(t, json.Unmarshal([]byte(served), &funded))

	project := t.TempDir()
	installed := filepath.Join(project, "node_modules", funded.Name)
	require.NoError(t, os.MkdirAll(installed, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(installed, "package.json"), []byte(served), 0o600))
	root, err := json.Marshal(map[string]any{"name": "project", "dependencies": map[string]string{funded.Name: "*"}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(project, "package.json"), root, 0o600))

	output, err := run(t, nil, npm, "fund", "--json", "--prefix", project)
	require.NoError(t, err)
	var report struct {
		Dependencies map[string]struct{ Funding []struct{ URL string } }
	}
	require.NoError(t, json.Unmarshal(output, &report), "%s", output)
	var urls []string
	for _, entry := range report.Dependencies[funded.Name].Funding {
		urls = append(urls, entry.URL)
	}
	require.Equal(t, []string{card, tipJar, pack, s.base + "/v1/pay/transfer", s.base + "/v1/pay"}, urls, "%s", output)
}
