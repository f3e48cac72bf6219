package book_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/book"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/sightings"
)

func TestInvalidSightingsAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*book.Sighting){
		"no offer":        func(s *book.Sighting) { s.Offer = "" },
		"no external id":  func(s *book.Sighting) { s.ExternalID = "" },
		"no asset":        func(s *book.Sighting) { s.Asset = "" },
		"derived state":   func(s *book.Sighting) { s.State = book.StatusRefunded },
		"no state":        func(s *book.Sighting) { s.State = "" },
		"unknown level":   func(s *book.Sighting) { s.EvidenceLevel = "heard" },
		"negative amount": func(s *book.Sighting) { s.Amount = -1 },
		"negative refund": func(s *book.Sighting) {
			s.Returns = []book.Return{{ID: "re_1", Kind: book.ReturnRefund, Amount: -1}}
		},
		"return without an id":  func(s *book.Sighting) { s.Returns = []book.Return{{Kind: book.ReturnRefund}} },
		"return of no kind":     func(s *book.Sighting) { s.Returns = []book.Return{{ID: "re_1"}} },
		"return's id not UTF-8": func(s *book.Sighting) { s.Returns = []book.Return{{ID: "re_\xff", Kind: book.ReturnRefund}} },
		"addendum of nothing":   func(s *book.Sighting) { s.Addendum = true },
		"revision of a chain":   func(s *book.Sighting) { s.Revision = 1 },
		"negative revision":     func(s *book.Sighting) { s.EvidenceLevel, s.Revision = book.LevelManual, -1 },
		"note too big":          func(s *book.Sighting) { s.Note = strings.Repeat("x", 4097) },
		"negative value":        func(s *book.Sighting) { s.USDCents = ptr(int64(-1)) },
		"evidence not JSON":     func(s *book.Sighting) { s.Evidence = json.RawMessage(`{`) },
		"external id too long":  func(s *book.Sighting) { s.ExternalID = strings.Repeat("x", 257) },
		"evidence too big":      func(s *book.Sighting) { s.Evidence = json.RawMessage(`"` + strings.Repeat("x", 4096) + `"`) },
		"not UTF-8":             func(s *book.Sighting) { s.ExternalID = "pi_\xff" },
		"zero character":        func(s *book.Sighting) { s.Payer = "0x\x00" },
		"half a nonce":          func(s *book.Sighting) { s.Nonce = sightings.Nonce(1)[:64] },
		"nonce without 0x":      func(s *book.Sighting) { s.Nonce = sightings.Nonce(1)[2:] },
		"nonce in capitals":     func(s *book.Sighting) { s.Nonce = strings.Replace(sightings.Nonce(1), "1", "A", 1) },
		"nonce with a newline":  func(s *book.Sighting) { s.Nonce = sightings.Nonce(1) + "\n" },
		"nonce of no chain":     func(s *book.Sighting) { s.Nonce, s.EvidenceLevel = sightings.Nonce(1), book.LevelSigned },
		"intent without chain":  func(s *book.Sighting) { s.Intent, s.Transaction = &book.IntentKey{}, "" },
	} {
		t.Run(name, func(t *testing.T) {
			s := sightings.Chain("0xa", book.StatusSeen)
			require.NoError(t, s.Validate())
			spoil(&s)
			require.ErrorIs(t, s.Validate(), book.ErrSighting)
		})
	}
}

func TestAnAddendumNeedsNothingOfThePayment(t *testing.T) {
	s := sightings.Returned("pi_1", book.Return{ID: "re_1", Kind: book.ReturnRefund})
	require.NoError(t, s.Validate())
}

func TestAllSpellingsOfAnAuthorizationAreOneKey(t *testing.T) {
	require.Equal(t, book.IntentKey{Network: "eip155:8453", Asset: "0xab", From: "0xcd", Nonce: "0xef"},
		book.IntentKey{Network: "eip155:8453", Asset: "0xAB", From: "0xCd", Nonce: "0xEF"}.Canonical())
}
