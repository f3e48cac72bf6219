package announce

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

// A receiver that knows one of the secrets finds its signature among those of the
// header, which are apart by a space (Standard Webhooks 1.0.0).
func TestAWebhookHasTheHeadersOfTheSpecification(t *testing.T) {
	d, receiver := newFixture(t), payoffertest.NewReceiver(t)
	const next = "correct horse battery staple"
	for n, secrets := range [][]string{nil, {testSecret}, {testSecret, ""}, {"", testSecret}, {testSecret, next}} {
		hook := Webhook{URL: receiver.URL() + fmt.Sprint(n), Secrets: secrets}
		a := d.configured(Config{Endpoints: []Endpoint{hook}, Transport: receiver.Transport()})
		d.pay()
		a.rounds(t.Context())
		require.Len(t, taken(t, receiver), n+1)
		got := receiver.Requests()[n]
		require.Equal(t, http.MethodPost, got.Method)
		require.Equal(t, "application/json", got.Header.Get("Content-Type"))
		require.Equal(t, fmt.Sprintf("card:pi_%d:1", n+1), payoffertest.Untagged(t, got.Header.Get("webhook-id")))
		require.Equal(t, fmt.Sprint(d.clock.now().Unix()), got.Header.Get("webhook-timestamp"))
		var want []string
		for _, secret := range secrets {
			if key, err := parseSecret(secret); key != nil {
				require.NoError(t, err)
				want = append(want, sign(key, got.Header.Get("webhook-id"), d.clock.now().Unix(), got.Body))
			}
		}
		require.Equal(t, strings.Join(want, " "), got.Header.Get("webhook-signature"))
	}
}

type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

func TestAnEndlessAnswerIsNotReadToItsEnd(t *testing.T) {
	body := new(endless)
	client := source.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(body)}, nil
	})}
	hook, err := newWebhook(Webhook{URL: "https://a.example/hook"}, client, time.Now)
	require.NoError(t, err)
	require.Equal(t, failure{}, hook.deliver(t.Context(), newEvent(&Config{}, transition(), false)))
	require.LessOrEqual(t, body.read, 16<<10)
}

// The position in the ledger is found again by this name, also by later
// versions: sha256sum of the URL, its first half.
func TestAReceiverKeepsItsNameAndHidesItsURL(t *testing.T) {
	a, err := New(Config{Endpoints: []Endpoint{Webhook{URL: "https://a.example/hook?key=1"}}})
	require.NoError(t, err)
	require.Equal(t, "webhook:43ad9b168a74a19bd49f52ed7b236572", a.subscribers[0].name)
}

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
		"short key":       {"whsec_" + encode(23), "has 23 bytes"},
		"long key":        {"whsec_" + encode(65), "has 65 bytes"},
		"nothing encoded": {"whsec_", "has 0 bytes"},
		"no base64":       {"whsec_" + strings.Repeat("!", 40), "not padded standard base64"},
		"no padding":      {"whsec_" + strings.TrimRight(encode(32), "="), "not padded standard base64"},
		"of URLs":         {"whsec_" + strings.Repeat("_-__", 10), "not padded standard base64"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Config{Endpoints: []Endpoint{
				Webhook{URL: "https://a.example/hook"},
				Webhook{URL: "https://b.example/key-in-path", Secrets: []string{testSecret, test.secret}},
			}})
			require.ErrorContains(t, err, test.says)
			require.ErrorContains(t, err, `announce: endpoint 2: host "b.example"`)
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
