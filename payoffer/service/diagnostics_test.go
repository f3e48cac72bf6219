package service

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheDiagnosticsOfAnOfferAtWork(t *testing.T) {
	h := newHouse(t)
	runtime := h.runtime(new(lockedBuffer))
	svc := h.acquire(runtime, "")
	h.open(runtime, svc)
	got := svc.Desk.Diagnose(t.Context())
	require.Equal(t, "pay.example", got.ID)
	require.Equal(t, svc.Key.String(), got.Settings)
	require.Len(t, got.Keys, 1)
	require.True(t, strings.HasPrefix(got.Keys[0], svc.Offer.DID()+"#"))
	require.True(t, got.Ledger.Writable)
	require.Empty(t, got.Ledger.Lost)
	require.Equal(t, []string{}, got.WebhooksOff)
	require.Len(t, got.Rails, len(svc.Health()))
	h.release(runtime)
}
