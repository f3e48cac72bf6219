// Package announce checks the outbound webhooks with the library that their receivers use: the Standard Webhooks
// project's own. They are sent by the package, and by the server.
package announce

import (
	"bytes"
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/announce"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest"
)

const (
	offerID = "pay.example"
	account = "operator/pay.example/transfer"
)

// announced are the requests for three payments, which were recorded after the receiver was first known.
func announced(t *testing.T, secrets ...string) []payoffertest.Announced {
	t.Helper()
	book := &outbox{Ledger: ledger.NewSQLite(filepath.Join(t.TempDir(), "ledger.db"), time.Now), begun: make(chan struct{})}
	require.NoError(t, book.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	require.NoError(t, book.Register(t.Context(), ledger.Account{Offer: offerID, ID: account, Rail: "transfer"}))
	receiver := payoffertest.NewReceiver(t)
	announcer, err := announce.New(announce.Config{
		OfferID: offerID, BaseURL: "https://pay.example", Ledger: book, Owner: "e2e",
		Endpoints: []announce.Endpoint{announce.Webhook{URL: receiver.URL(), Secrets: secrets}}, Transport: receiver.Transport(),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Add(1)
	announcer.Begin(ctx, running.Done)
	defer running.Wait()
	defer cancel()

	<-book.begun
	for _, reference := range []string{"INV-1", "INV.2 für Größe", "INV-3\r\nwebhook-signature: v1,AAAA"} {
		_, err := book.Record(t.Context(), nil, ledger.Observation{
			Offer: offerID, Account: account, Rail: "transfer", ExternalID: reference, Asset: "USD", Amount: 4200,
			State: ledger.StatusConfirmed, EvidenceLevel: ledger.LevelManual, OccurredAt: time.Now().Unix(), Cause: "entry",
		})
		require.NoError(t, err)
	}
	announcer.Notify()
	receiver.Await(3)
	return receiver.Requests()
}

// outbox tells when the announcer has found its position.
type outbox struct {
	*ledger.Ledger
	begun chan struct{}
	once  sync.Once
}

func (o *outbox) LeaseSubscriber(ctx context.Context, offer, name, owner string, now, until int64) (int64, bool, error) {
	after, held, err := o.Ledger.LeaseSubscriber(ctx, offer, name, owner, now, until)
	o.once.Do(func() { close(o.begun) })
	return after, held, err
}

func TestReceiversVerifyAnnouncementsWithTheOfficialLibrary(t *testing.T) {
	t.Parallel()
	encoded, err := standardwebhooks.NewWebhook("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	require.NoError(t, err)
	raw, err := standardwebhooks.NewWebhookRaw([]byte("correct horse battery staple"))
	require.NoError(t, err)
	for name, test := range map[string]struct {
		secrets  []string
		verifier *standardwebhooks.Webhook
	}{
		"encoded secret": {[]string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, encoded},
		"secret of text": {[]string{"correct horse battery staple"}, raw},
		"first of two":   {[]string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "correct horse battery staple"}, encoded},
		"second of two":  {[]string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "correct horse battery staple"}, raw},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, got := range announced(t, test.secrets...) {
				require.NoError(t, test.verifier.Verify(got.Body, got.Header))
				requireForgeryFails(t, test.verifier, got)
			}
		})
	}
}

// requireForgeryFails requires that all that is signed matters.
func requireForgeryFails(t *testing.T, verifier *standardwebhooks.Webhook, got payoffertest.Announced) {
	t.Helper()
	altered := bytes.Replace(got.Body, []byte(`"counted":true`), []byte(`"counted":false`), 1)
	require.NotEqual(t, string(got.Body), string(altered))
	require.ErrorIs(t, verifier.Verify(altered, got.Header), standardwebhooks.ErrNoMatchingSignature)
	for _, name := range []string{standardwebhooks.HeaderWebhookID, standardwebhooks.HeaderWebhookTimestamp} {
		header := got.Header.Clone()
		header.Set(name, header.Get(name)+"0")
		require.ErrorIs(t, verifier.VerifyIgnoringTimestamp(got.Body, header), standardwebhooks.ErrNoMatchingSignature, name)
	}
}
