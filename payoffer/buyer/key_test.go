package buyer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// digits are a well-known key of test chains.
const digits = "59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"

func TestAKeyIsReadInEitherForm(t *testing.T) {
	for _, text := range []string{digits, "0x" + digits, " 0x" + strings.ToUpper(digits) + "\n"} {
		key, err := ParseKey(text)
		require.NoError(t, err)
		require.Equal(t, "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", key.Address())
	}
}

func TestAKeyIsNeverRepeated(t *testing.T) {
	secret := strings.Repeat("secret", 3)
	file := filepath.Join(t.TempDir(), "key")
	for _, text := range []string{"", secret, digits + "0", digits[:63], "0x" + digits[:62] + "zz", strings.Repeat("0", 64), strings.Repeat("f", 64)} {
		_, err := ParseKey(text)
		require.ErrorContains(t, err, "64 hexadecimal digits")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, fromFile := ReadKey(file)
		require.Equal(t, err, fromFile)
		if text != "" {
			require.NotContains(t, err.Error(), text[:8])
		}
	}
	_, err := ReadKey("0x" + digits)
	require.ErrorContains(t, err, "cannot be opened")
	require.NotContains(t, err.Error(), digits[:8], "a key in place of the file's name")

	key, err := ParseKey(digits)
	require.NoError(t, err)
	for _, verb := range []string{"%v", "%+v", "%s", "%#v", "%q"} {
		text := fmt.Sprintf(verb, key) + fmt.Sprintf(verb, struct{ Key Key }{key}) + fmt.Sprintf(verb, &key)
		require.Contains(t, text, key.Address(), verb)
		require.NotContains(t, text, digits[:8], verb)
	}
}

func TestAKeyThatOthersMayReadIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte(digits), 0o600))
	_, err := ReadKey(file)
	require.NoError(t, err)
	for _, mode := range []os.FileMode{0o604, 0o640, 0o660, 0o777, 0o610} {
		require.NoError(t, os.Chmod(file, mode))
		_, err := ReadKey(file)
		require.ErrorContains(t, err, "chmod 600", mode)
	}
}
