package announce

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The vector of the Standard Webhooks project's own tests.
func TestSignaturesAreThoseOfStandardWebhooks(t *testing.T) {
	key, err := parseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	require.NoError(t, err)
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
		sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, []byte(`{"test": 2432232314}`)))
}

func TestSecretsOfBothFormsAreTaken(t *testing.T) {
	for _, size := range []int{24, 32, 64} {
		key, err := parseSecret("whsec_" + base64.StdEncoding.EncodeToString(make([]byte, size)))
		require.NoError(t, err)
		require.Len(t, key, size)
	}
	key, err := parseSecret("correct horse battery staple")
	require.NoError(t, err)
	require.Equal(t, "correct horse battery staple", string(key))
}

func TestABadSecretIsRefusedWithoutBeingRepeated(t *testing.T) {
	encode := func(size int) string { return base64.StdEncoding.EncodeToString(make([]byte, size)) }
	for name, test := range map[string]struct{ secret, says string }{
		"short text":      {"hunter2-hunter2-hunter2", "23 characters"},
		"short key":       {"whsec_" + encode(23), "base64 of 23 bytes"},
		"long key":        {"whsec_" + encode(65), "base64 of 65 bytes"},
		"nothing encoded": {"whsec_", "base64 of 0 bytes"},
		"no base64":       {"whsec_" + strings.Repeat("!", 40), "not padded standard base64"},
		"no padding":      {"whsec_" + strings.TrimRight(encode(32), "="), "not padded standard base64"},
		"of URLs":         {"whsec_" + strings.Repeat("_-__", 10), "not padded standard base64"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Config{Sinks: []Sink{
				{URL: "https://a.example/hook"}, {URL: "https://b.example/key-in-path", Secret: test.secret},
			}})
			require.ErrorContains(t, err, test.says)
			require.ErrorContains(t, err, `receiver 2 of announcements: host "b.example"`)
			require.ErrorContains(t, err, "openssl rand -base64 32", "what to do")
			require.NotContains(t, err.Error(), "key-in-path")
			if secret := strings.TrimPrefix(test.secret, "whsec_"); secret != "" {
				require.NotContains(t, err.Error(), secret)
			}
		})
	}
}

func FuzzASecretIsAKeyOrAnError(f *testing.F) {
	f.Add("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	f.Add("correct horse battery staple")
	f.Add("whsec_\n")
	f.Fuzz(func(t *testing.T, secret string) {
		key, err := parseSecret(secret)
		if err != nil {
			require.Nil(t, key)
			return
		}
		require.Equal(t, secret == "", key == nil, "what is configured signs")
		require.True(t, key == nil || len(key) >= secretLeast)
	})
}
