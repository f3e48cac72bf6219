package offer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASecretIsRecognized(t *testing.T) {
	const key = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	for _, secret := range []string{
		key, strings.ToUpper(key), "0x" + key, "https://" + key, "key " + key, "(" + key + ")",
		"xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi",
	} {
		require.ErrorContains(t, CheckNoSecret(secret), "move that money to a new wallet now", secret)
	}
	for _, secret := range []string{"sk_live_51HqLyj", "rk_test_51HqLyj", "whsec_dGhpcyBp", "plink_1 sk_live_51HqLyj"} {
		require.ErrorContains(t, CheckNoSecret(secret), "a secret of a payment service", secret)
	}
	for _, text := range []string{
		"", "Thank you very much.", "https://example.org/tx/" + key, "https://example.org/tx/0x" + key, key[1:], key + "0",
		"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "desk_live_lamp",
	} {
		require.NoError(t, CheckNoSecret(text), text)
	}
}
