package payoffer

import (
	"context"
	"encoding/base64"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/signature"
	"github.com/payoffer/caddy-pay-offer/payoffer/x402"
)

func keysIn(t *testing.T, folder string) *signing {
	t.Helper()
	return newSigning(&certmagic.FileStorage{Path: folder}, "https://pay.example.org:8443")
}

func loaded(t *testing.T, k *signing) *signing {
	t.Helper()
	require.NoError(t, k.load(t.Context()))
	return k
}

// publicBy finds the key that an instance publishes under a kid.
func publicBy(k *signing, keyID string) []byte {
	for _, key := range k.published() {
		if k.did+"#"+key.ID == keyID {
			return key.Public
		}
	}
	return nil
}

// requireSigned checks a signature by what an instance publishes.
func requireSigned(t *testing.T, k *signing, compact string) {
	t.Helper()
	jws, err := signature.ParseJWS(compact)
	require.NoError(t, err)
	key := publicBy(k, jws.KeyID)
	require.NotNil(t, key, "it publishes the key")
	require.True(t, jws.VerifiedBy(key))
}

func TestInstancesThatStartTogetherSignWithOneKey(t *testing.T) {
	folder := t.TempDir()
	instances := make([]*signing, 4)
	errs := make([]error, len(instances))
	var starts sync.WaitGroup
	for n := range instances {
		instances[n] = keysIn(t, folder)
		require.Empty(t, instances[n].Sign(1), "nothing is loaded yet")
		starts.Go(func() { errs[n] = instances[n].load(t.Context()) })
	}
	starts.Wait()
	for n, k := range instances {
		require.NoError(t, errs[n])
		require.Len(t, k.published(), 1)
		requireSigned(t, instances[0], k.Sign(map[string]int{"b": n, "a": 1}))
	}
	require.NotEqual(t, instances[0].published(), loaded(t, keysIn(t, t.TempDir())).published())
	// A start that comes later changes nothing.
	require.Equal(t, instances[0].published(), loaded(t, keysIn(t, folder)).published())
}

func TestDamagedSigningKeysAreReportedAndNotReplaced(t *testing.T) {
	k := keysIn(t, t.TempDir())
	require.NoError(t, k.storage.Store(t.Context(), k.path, []byte("{}")))
	require.ErrorContains(t, k.load(t.Context()), "pay_offer/signing/pay.example.org-8443.json")
	_, err := k.rotate(t.Context(), false)
	require.ErrorContains(t, err, "has no private key")
	stored, err := k.storage.Load(t.Context(), k.path)
	require.NoError(t, err)
	require.Equal(t, "{}", string(stored))
}

// While a rotation goes around, whatever one instance signs is verified by what
// every other one publishes.
func TestRotationReachesEveryInstanceBeforeTheNewKeySigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		one, two := loaded(t, keysIn(t, folder)), loaded(t, keysIn(t, folder))
		receipt := one.Sign("of the first key")
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		var publications atomic.Int32
		work.Go(func() { two.follow(ctx, func() { publications.Add(1) }, slog.New(slog.DiscardHandler)) })

		next, err := one.rotate(t.Context(), false)
		require.NoError(t, err)
		require.Equal(t, time.Now().Add(keyLead).Unix(), next.From.Unix())
		time.Sleep(keysEvery + time.Second)
		require.Len(t, two.published(), 2)
		require.EqualValues(t, 1, publications.Load())
		for range 10 {
			requireSigned(t, two, one.Sign("during the rotation"))
			requireSigned(t, one, two.Sign("during the rotation"))
			time.Sleep(keyLead / 8)
		}
		require.EqualValues(t, 2, publications.Load(), "and once when the new key signs")
		signed := two.Sign("of the second key")
		require.Contains(t, decodeHeader(t, signed), next.ID)
		requireSigned(t, one, signed)
		requireSigned(t, two, receipt)

		time.Sleep(renewEvery)
		require.EqualValues(t, 3, publications.Load(), "offers are signed again before they end")
		cancel()
		work.Wait()
	})
}

func decodeHeader(t *testing.T, compact string) string {
	t.Helper()
	header, _, _ := strings.Cut(compact, ".")
	text, err := base64.RawURLEncoding.DecodeString(header)
	require.NoError(t, err)
	return string(text)
}

// lostStorage is one that cannot be read for a while.
type lostStorage struct {
	certmagic.Storage
	lost atomic.Bool
}

func (s *lostStorage) Load(ctx context.Context, key string) ([]byte, error) {
	if s.lost.Load() {
		return nil, errors.New("no route to the storage")
	}
	return s.Storage.Load(ctx, key)
}

func TestKeysStayInUseWhileTheStorageIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		storage := &lostStorage{Storage: &certmagic.FileStorage{Path: t.TempDir()}}
		k := loaded(t, newSigning(storage, "https://pay.example.org"))
		var log strings.Builder
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { k.follow(ctx, func() {}, slog.New(slog.NewTextHandler(&log, nil))) })
		storage.lost.Store(true)
		time.Sleep(5 * keysEvery)
		requireSigned(t, k, k.Sign("x"))
		cancel()
		work.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "signing keys cannot be read"), "it says so once")
	})
}

// A data directory that is not mounted for a while looks like one without keys.
func TestKeysInUseAreWrittenBackToAStorageThatLostThem(t *testing.T) {
	storage := &certmagic.FileStorage{Path: t.TempDir()}
	k := loaded(t, newSigning(storage, "https://pay.example.org"))
	before := k.state()
	require.NoError(t, storage.Delete(t.Context(), k.path))
	require.NoError(t, k.load(t.Context()))
	require.Equal(t, before, k.state())
	require.Equal(t, before, loaded(t, newSigning(storage, "https://pay.example.org")).state(), "for the next start, too")
}

// offered are the signed offers of a running instance's quote.
func (o *operated) offered() []string {
	o.t.Helper()
	return x402.FindSigned([]byte(o.get(o.service + "/v1/quote").header.Get(x402.HeaderRequired)))
}

func TestCommandRotateKeyKeepsFormerReceiptsVerifiable(t *testing.T) {
	o := newOperated(t, smallest)
	svc := running.newest().offers()[0]
	former := svc.signing.Sign(x402.ReceiptPayload{
		Version: 1, Network: "eip155:84532", ResourceURL: o.service + "/v1/sponsor", Payer: "0x00", IssuedAt: time.Now().Unix(),
	})
	_, err := verify(t, former)
	require.NoError(t, err)
	before := o.offered()
	require.Len(t, before, 1)

	out, err := o.runCommand(rotateKeyCommand())
	require.NoError(t, err)
	require.Regexp(t, `^did:web:127\.0\.0\.1%3A\d+#[\w-]{43} signs from 20.*Z; former keys stay published\n$`, out)
	require.Len(t, svc.signing.published(), 2)
	_, err = verify(t, former)
	require.NoError(t, err)

	out, err = o.runCommand(rotateKeyCommand(), "--revoke")
	require.NoError(t, err)
	require.Contains(t, out, "all former keys are withdrawn")
	require.Len(t, svc.signing.published(), 1)
	require.NotEqual(t, before, o.offered(), "the quote is signed with the new key at once")
	_, err = verify(t, o.offered()[0])
	require.NoError(t, err)
	_, err = verify(t, former)
	require.ErrorContains(t, err, "was withdrawn")
	require.NotContains(t, o.log(), `"d":`)
	require.Equal(t, http.StatusMethodNotAllowed, o.ask(http.MethodGet, adminKeys, "").status)

	_, err = o.runCommand(rotateKeyCommand(), "--offer", "other")
	require.ErrorContains(t, err, `no offer has the id "other"`)
}

// The new configuration may answer before its app has started.
func TestReloadHandsTheKeysOver(t *testing.T) {
	o := newOperated(t, smallest)
	before := running.newest().offers()[0].signing.published()
	require.Len(t, before, 1)
	_, svc := o.provision()
	defer func() { require.NoError(t, svc.close()) }()
	require.Equal(t, before, svc.signing.published())
	require.NotEmpty(t, x402.FindSigned([]byte(svc.payments.Quote().Header)))
}
