package accounting_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/payoffer/caddy-pay-offer/payoffer/ledger/accounting"
	"github.com/payoffer/caddy-pay-offer/payoffer/payoffertest/observations"
)

func TestInvalidObservationsAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*accounting.Observation){
		"no offer":        func(s *accounting.Observation) { s.Offer = "" },
		"no external id":  func(s *accounting.Observation) { s.ExternalID = "" },
		"no asset":        func(s *accounting.Observation) { s.Asset = "" },
		"derived state":   func(s *accounting.Observation) { s.State = accounting.StatusRefunded },
		"no state":        func(s *accounting.Observation) { s.State = "" },
		"unknown level":   func(s *accounting.Observation) { s.EvidenceLevel = "heard" },
		"negative amount": func(s *accounting.Observation) { s.Amount = -1 },
		"negative refund": func(s *accounting.Observation) {
			s.Returns = []accounting.Return{{ID: "re_1", Kind: accounting.ReturnRefund, Amount: -1}}
		},
		"return without an id": func(s *accounting.Observation) { s.Returns = []accounting.Return{{Kind: accounting.ReturnRefund}} },
		"return of no kind":    func(s *accounting.Observation) { s.Returns = []accounting.Return{{ID: "re_1"}} },
		"return's id not UTF-8": func(s *accounting.Observation) {
			s.Returns = []accounting.Return{{ID: "re_\xff", Kind: accounting.ReturnRefund}}
		},
		"addendum of nothing":  func(s *accounting.Observation) { s.Addendum = true },
		"revision of a chain":  func(s *accounting.Observation) { s.Revision = 1 },
		"negative revision":    func(s *accounting.Observation) { s.EvidenceLevel, s.Revision = accounting.LevelManual, -1 },
		"note too big":         func(s *accounting.Observation) { s.Note = strings.Repeat("x", 4097) },
		"negative value":       func(s *accounting.Observation) { s.USDCents = ptr(int64(-1)) },
		"evidence not JSON":    func(s *accounting.Observation) { s.Evidence = json.RawMessage(`{`) },
		"external id too long": func(s *accounting.Observation) { s.ExternalID = strings.Repeat("x", 257) },
		"evidence too big":     func(s *accounting.Observation) { s.Evidence = json.RawMessage(`"` + strings.Repeat("x", 4096) + `"`) },
		"not UTF-8":            func(s *accounting.Observation) { s.ExternalID = "pi_\xff" },
		"zero character":       func(s *accounting.Observation) { s.Payer = "0x\x00" },
		"half a nonce":         func(s *accounting.Observation) { s.Nonce = observations.Nonce(1)[:64] },
		"nonce without 0x":     func(s *accounting.Observation) { s.Nonce = observations.Nonce(1)[2:] },
		"nonce in capitals":    func(s *accounting.Observation) { s.Nonce = strings.Replace(observations.Nonce(1), "1", "A", 1) },
		"nonce with a newline": func(s *accounting.Observation) { s.Nonce = observations.Nonce(1) + "\n" },
		"nonce of no chain": func(s *accounting.Observation) {
			s.Nonce, s.EvidenceLevel = observations.Nonce(1), accounting.LevelSigned
		},
		"intent without chain": func(s *accounting.Observation) { s.Intent, s.Transaction = &accounting.IntentKey{}, "" },
	} {
		t.Run(name, func(t *testing.T) {
			s := observations.Chain("0xa", accounting.StatusSeen)
			require.NoError(t, s.Validate())
			spoil(&s)
			require.ErrorIs(t, s.Validate(), accounting.ErrObservation)
		})
	}
}

func TestAllSpellingsOfAnAuthorizationAreOneKey(t *testing.T) {
	require.Equal(t, accounting.IntentKey{Network: "eip155:8453", Asset: "0xab", From: "0xcd", Nonce: "0xef"},
		accounting.IntentKey{Network: "eip155:8453", Asset: "0xAB", From: "0xCd", Nonce: "0xEF"}.Canonical())
}
