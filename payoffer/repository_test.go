package payoffer

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/assert/yaml"
	"github.com/stretchr/testify/require"
)

// TestReadmeIsShort holds the length that a stranger reads.
func TestReadmeIsShort(t *testing.T) {
	require.LessOrEqual(t, strings.Count(readSource(t, "../README.md"), "\n"), 190)
}

// TestIssueFormsAskForWhatIsNeeded reads the forms as the hosting site does, which shows none that it cannot read.
func TestIssueFormsAskForWhatIsNeeded(t *testing.T) {
	forms := must(filepath.Glob("../.github/ISSUE_TEMPLATE/*.yml"))(t)
	for _, file := range forms {
		if filepath.Base(file) == "config.yml" {
			continue
		}
		var form struct {
			Name, Description string
			Body              []struct {
				Type, ID    string
				Attributes  struct{ Label, Value string }
				Validations struct{ Required bool }
			}
		}
		require.NoError(t, yaml.Unmarshal([]byte(readSource(t, file)), &form), file)
		assert.NotEmpty(t, form.Name, file)
		assert.NotEmpty(t, form.Description, file)
		required := 0
		for _, field := range form.Body {
			assert.NotEmpty(t, field.Attributes.Label+field.Attributes.Value, file)
			if field.Validations.Required {
				required++
			}
		}
		assert.NotZero(t, required, file)
	}
	require.Len(t, forms, 4)
}
