package offer

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The words are those of the standard, byte for byte.
func TestTheSeedWordsAreThoseOfTheStandard(t *testing.T) {
	sum := sha256.Sum256([]byte(seedWordsFile))
	require.Equal(t, "2f5eed53a4727b4bf8880d8f3f199efc90e58503646d9ff8eff3a2ed3b24dbda", hex.EncodeToString(sum[:]))
	require.Len(t, seedWords(), 2048)
}

func TestAWalletsSecretIsKnownWhereverItStands(t *testing.T) {
	const key = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
	// The shortest phrase and the longest of the test vectors of BIP-39.
	twelve := strings.Repeat("abandon ", 11) + "about"
	long := strings.Repeat("letter advice cage absurd amount doctor acoustic avoid ", 2) + "letter advice cage absurd amount doctor acoustic bless"
	for _, secret := range []string{
		twelve, long, strings.ToUpper(long), strings.ReplaceAll(twelve, " ", "\n"), strings.ReplaceAll(long, " ", ", "), strings.ReplaceAll(long, " ", "%20"),
		strings.ReplaceAll(long, " ", "\u3000"), "Mine is: " + twelve + ". Thanks!", "https://example.org/" + strings.ReplaceAll(twelve, " ", "-"),
		"1. abandon 2. ability 3. able 4. about 5. above 6. absent 7. absorb 8. abstract 9. absurd 10. abuse 11. access 12. accident",
		strings.Replace(twelve, "abandon", "abandonn", 1), strings.Repeat("abandon ", 11) + "abbout",
		key, strings.ToUpper(key), "0x" + key, "0X" + key, "https://" + key, "https://" + key + ".example", "key " + key, "(" + key + ")", "Acme\u00a0" + key + ".",
		"5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTJ", "KwdMAjGmerYanjeui5SHS7JkmpZvVipYvB2LJGU1ZxJwYvP98617", "6PRVWUbkzzsbcVac2qwfssoUJAN1Xhrg6bNk8J7Nzm5H7kxEbn2Nh2ZoGg",
		"xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi",
	} {
		require.ErrorContains(t, CheckNoWalletSecret(secret), "move that money to a new wallet now", secret)
	}
	for _, text := range []string{
		"", strings.Repeat("abandon ", 11), "Thank you very much: this will help us keep our project open and free for everyone, year after year.",
		"https://example.org/tx/" + key, "https://example.org/?tx=" + key, "sha256:" + key, key[1:], key + "0", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
		"https://example.org/#/tx/" + key,
	} {
		require.NoError(t, CheckNoWalletSecret(text), text)
	}
}
