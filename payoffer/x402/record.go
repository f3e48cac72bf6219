package x402

import (
	"context"
	"errors"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

const (
	// recordRetries and recordFirst bound how long the buyer waits for a
	// settled payment to be recorded: the pauses double.
	recordRetries = 4
	recordFirst   = 100 * time.Millisecond
	// recordLaterFirst and recordLaterMost are the pauses after that.
	recordLaterFirst = 5 * time.Second
	recordLaterMost  = time.Minute
)

// recordClaim records a facilitator's success without proof. Where a chain is
// read it may still show that the claim is false: a receipt is signed once it
// is proven.
func (s *Service) recordClaim(ctx context.Context, rail *Rail, i ledger.Intent) ledger.Intent {
	i.State, i.Evidence = ledger.IntentSettled, ledger.EvidenceFacilitator
	if rail.Chain == nil {
		i.Answer = s.answer(i)
	}
	s.record(ctx, i, func(ctx context.Context) error {
		return s.Ledger.SettleIntent(ctx, i.IntentKey, i.Transaction, i.Answer, i.Evidence)
	})
	return i
}

// recordProof records the Transfer that an authorization made, and with it the
// intent as settled.
func (s *Service) recordProof(ctx context.Context, i ledger.Intent, sighting ledger.Sighting) ledger.Intent {
	i.State, i.Evidence, i.Transaction = ledger.IntentSettled, ledger.EvidenceChain, sighting.Transaction
	i.Answer = s.answer(i)
	sighting.Via, sighting.Own = "x402", i.Own
	sighting.Intent, sighting.Answer = &i.IntentKey, i.Answer
	s.record(ctx, i, func(ctx context.Context) error {
		_, err := s.Ledger.Record(ctx, nil, sighting)
		return err
	})
	return i
}

// answer is what is stored for the buyer of a settled intent, in version 2
// terms. One that is stored already stands: a buyer has it.
func (s *Service) answer(i ledger.Intent) []byte {
	if i.Answer != nil {
		return i.Answer
	}
	response := settleResponse(2, i)
	response.Extensions = s.receipt(i)
	return encode(response)
}

// ensureAnswer stores the answer of an intent that the chain's observer settled
// before anything here had, so that every replay gets the same receipt.
func (s *Service) ensureAnswer(ctx context.Context, i ledger.Intent) ledger.Intent {
	if i.State != ledger.IntentSettled || i.Evidence != ledger.EvidenceChain || i.Answer != nil {
		return i
	}
	if err := s.Ledger.SettleIntent(ctx, i.IntentKey, i.Transaction, s.answer(i), i.Evidence); err != nil {
		return i
	}
	if stored, known, err := s.Ledger.Intent(ctx, i.IntentKey); err == nil && known {
		return stored
	}
	return i
}

// record stores that a payment was charged. The buyer is told so even when it
// fails: the open intent is then recorded later, or resolved.
func (s *Service) record(ctx context.Context, i ledger.Intent, store func(context.Context) error) {
	failpoint.Hit(failpoint.RecordBefore)
	err := store(ctx)
	for try := 0; err != nil && ctx.Err() == nil && try < recordRetries; try++ {
		time.Sleep(recordFirst << try)
		err = store(ctx)
	}
	if err == nil {
		failpoint.Hit(failpoint.RecordAfter)
		return
	}
	s.Logger.Error("a settled payment could not be recorded; it stays open and is recorded later",
		"network", i.Network, "transaction", i.Transaction, "nonce", i.Nonce, "error", err.Error())
	if _, busy := s.recording.LoadOrStore(i.IntentKey, true); busy {
		return
	}
	s.underWay.begin()
	go func() {
		defer s.underWay.end()
		defer s.recording.Delete(i.IntentKey)
		s.recordLater(context.WithoutCancel(ctx), i, store)
	}()
}

// recordLater goes on until the ledger takes the payment, or is closed: without
// a chain nobody else could tell that it was settled.
func (s *Service) recordLater(ctx context.Context, i ledger.Intent, store func(context.Context) error) {
	for wait := recordLaterFirst; ; wait = min(2*wait, recordLaterMost) {
		time.Sleep(wait) // ctx has no end
		err := store(ctx)
		switch {
		case err == nil:
			s.Logger.Info("a settled payment was recorded late", "network", i.Network, "transaction", i.Transaction, "nonce", i.Nonce)
			return
		case errors.Is(err, ledger.ErrNotOpen), errors.Is(err, ledger.ErrNoIntent), errors.Is(err, ledger.ErrIntentState):
			return
		}
	}
}

// keepOpen notes what is known of an intent and gives up its lease, so that it
// is looked at again. It returns what the ledger knows: an observer may have
// decided.
func (s *Service) keepOpen(ctx context.Context, i ledger.Intent, transaction, reason string) ledger.Intent {
	err := s.Ledger.NoteIntent(ctx, i.IntentKey, s.Owner, s.Now().Unix(), transaction, reason)
	if errors.Is(err, ledger.ErrIntentState) {
		if stored, known, err := s.Ledger.Intent(ctx, i.IntentKey); err == nil && known {
			return stored
		}
	}
	if err != nil {
		s.Logger.Warn("what is known of an open payment could not be recorded", "nonce", i.Nonce, "error", err.Error())
	}
	i.Reason = reason
	return i
}
