package announce

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/observe/source"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

func TestAWebhookHasTheHeadersOfTheSpecification(t *testing.T) {
	d, receiver := newDesk(t), payoffertest.NewReceiver(t)
	a := d.announcer(receiver)
	d.pay()
	a.rounds(t.Context())
	got := receiver.Requests()[0]
	require.Equal(t, http.MethodPost, got.Method)
	require.Equal(t, "application/json", got.Header.Get("Content-Type"))
	require.Equal(t, "card:pi_1:1", got.Header.Get("webhook-id"))
	require.Equal(t, fmt.Sprint(d.clock.now().Unix()), got.Header.Get("webhook-timestamp"))
	require.Regexp(t, `^v1,[A-Za-z0-9+/]{43}=$`, got.Header.Get("webhook-signature"))
}

func TestWithoutASecretNothingIsSigned(t *testing.T) {
	d, receiver := newDesk(t), payoffertest.NewReceiver(t)
	a := d.configured(Config{Sinks: []Sink{{URL: receiver.URL()}}, Transport: receiver.Transport()})
	d.pay()
	a.rounds(t.Context())
	require.Len(t, taken(t, receiver), 1)
	require.NotContains(t, receiver.Requests()[0].Header, "Webhook-Signature")
	require.NotEmpty(t, receiver.Requests()[0].Header.Get("webhook-id"))
}

func TestAReceiverMustBeAnAddressOfItsOwn(t *testing.T) {
	for name, test := range map[string]struct {
		urls []string
		says string
	}{
		"not absolute":  {[]string{"/hook"}, "receiver 1 of announcements: this is not an absolute URL"},
		"plain http":    {[]string{"https://a.example/x", "http://b.example/x"}, `receiver 2 of announcements: the URL for host "b.example" is plain http`},
		"another kind":  {[]string{"ftp://a.example/x"}, "not an absolute URL"},
		"the same once": {[]string{"https://a.example/x", "https://a.example/y", "https://a.example/x"}, `receivers 1 and 3 of announcements have the same URL (host "a.example")`},
	} {
		t.Run(name, func(t *testing.T) {
			var c Config
			for _, url := range test.urls {
				c.Sinks = append(c.Sinks, Sink{URL: url})
			}
			_, err := New(c)
			require.ErrorContains(t, err, test.says)
			require.NotContains(t, err.Error(), "/x")
		})
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
	hook, err := newWebhook(Sink{URL: "https://a.example/hook"}, client, time.Now)
	require.NoError(t, err)
	require.Equal(t, failure{}, hook.deliver(t.Context(), newEvent(&Config{}, transition())))
	require.LessOrEqual(t, body.read, 16<<10)
}

// The position in the ledger is found again by this name, also by later
// versions: sha256sum of the URL, its first half.
func TestAReceiverKeepsItsNameAndHidesItsURL(t *testing.T) {
	require.Equal(t, "webhook:43ad9b168a74a19bd49f52ed7b236572", sinkName("https://a.example/hook?key=1"))
}
