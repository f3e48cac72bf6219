package x402

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

const (
	// writeRetries and writeFirst bound how long the buyer waits for a settled
	// payment to be written: the pauses double.
	writeRetries = 4
	writeFirst   = 100 * time.Millisecond
	// writeLaterFirst and writeLaterMost are the pauses after that.
	writeLaterFirst = 5 * time.Second
	writeLaterMost  = time.Minute
)

// claim records a facilitator's success without proof. Where a chain is read it
// may still show that the claim is false: a receipt is signed once it is proven.
func (s *Service) claim(ctx context.Context, rail *Rail, i ledger.Intent) ledger.Intent {
	i.State, i.Evidence = ledger.IntentSettled, ledger.EvidenceFacilitator
	if rail.Chain == nil {
		i.Answer = s.settled(i)
	}
	s.write(ctx, i, func(ctx context.Context) error {
		return s.ledger.SettleIntent(ctx, i.IntentKey, i.Transaction, i.Answer, i.Evidence)
	})
	return i
}

// prove records the Transfer that an authorization made, and with it the
// intent as settled.
func (s *Service) prove(ctx context.Context, i ledger.Intent, sighting ledger.Sighting) ledger.Intent {
	i.State, i.Evidence, i.Transaction = ledger.IntentSettled, ledger.EvidenceChain, sighting.Transaction
	i.Answer = s.settled(i)
	sighting.Via, sighting.Own = "x402", i.Own
	sighting.Intent, sighting.Answer = &i.IntentKey, i.Answer
	s.write(ctx, i, func(ctx context.Context) error {
		_, err := s.ledger.Record(ctx, nil, sighting)
		return err
	})
	return i
}

// settled is the stored answer of a paid intent, in version 2 terms. One that is
// stored already stands: a buyer has it.
func (s *Service) settled(i ledger.Intent) []byte {
	if i.Answer != nil {
		return i.Answer
	}
	return encode(SettleResponse{
		Success: true, Transaction: i.Transaction, Network: i.Network, Payer: i.From, Amount: strconv.FormatInt(i.Amount, 10),
		Extensions: s.receipt(i),
	})
}

// complete stores the answer of an intent that the chain's observer settled
// before anything here had answered, so that every replay gets the same
// receipt.
func (s *Service) complete(ctx context.Context, i ledger.Intent) ledger.Intent {
	if i.State != ledger.IntentSettled || i.Evidence != ledger.EvidenceChain || i.Answer != nil {
		return i
	}
	if err := s.ledger.SettleIntent(ctx, i.IntentKey, i.Transaction, s.settled(i), i.Evidence); err != nil {
		return i
	}
	if stored, known, err := s.ledger.Intent(ctx, i.IntentKey); err == nil && known {
		return stored
	}
	return i
}

// write stores what became of a payment that was charged. The buyer is told so
// even when it fails: the open intent is then written later, or resolved.
func (s *Service) write(ctx context.Context, i ledger.Intent, store func(context.Context) error) {
	failpoint.Hit(failpoint.RecordBefore)
	err := store(ctx)
	for try := 0; err != nil && try < writeRetries; try++ {
		if pause(ctx, writeFirst<<try) != nil {
			break
		}
		err = store(ctx)
	}
	if err == nil {
		failpoint.Hit(failpoint.RecordAfter)
		return
	}
	s.log.Error("a settled payment could not be recorded; it stays open and is recorded later",
		"network", i.Network, "transaction", i.Transaction, "nonce", i.Nonce, "error", err.Error())
	if _, busy := s.writing.LoadOrStore(i.IntentKey, true); busy {
		return
	}
	s.settling.begin()
	go func() {
		defer s.settling.end()
		defer s.writing.Delete(i.IntentKey)
		s.writeLater(context.WithoutCancel(ctx), i, store)
	}()
}

// writeLater goes on until the ledger takes the payment, or is closed: without
// a chain nobody else could tell that it was settled.
func (s *Service) writeLater(ctx context.Context, i ledger.Intent, store func(context.Context) error) {
	for wait := writeLaterFirst; ; wait = min(2*wait, writeLaterMost) {
		_ = pause(ctx, wait) // ctx has no end
		err := store(ctx)
		switch {
		case err == nil:
			s.log.Info("a settled payment was recorded late", "network", i.Network, "transaction", i.Transaction, "nonce", i.Nonce)
			return
		case errors.Is(err, ledger.ErrNotOpen), errors.Is(err, ledger.ErrNoIntent), errors.Is(err, ledger.ErrIntentState):
			return
		}
	}
}

// pause waits, or returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// note keeps an intent open and gives up its lease, so that it is looked at
// again. It returns what the ledger knows: an observer may have decided.
func (s *Service) note(ctx context.Context, i ledger.Intent, transaction, reason string) ledger.Intent {
	err := s.ledger.NoteIntent(ctx, i.IntentKey, s.owner, s.now().Unix(), transaction, reason)
	if errors.Is(err, ledger.ErrIntentState) {
		if stored, known, err := s.ledger.Intent(ctx, i.IntentKey); err == nil && known {
			return stored
		}
	}
	if err != nil {
		s.log.Warn("what is known of an open payment could not be recorded", "nonce", i.Nonce, "error", err.Error())
	}
	i.Reason = reason
	return i
}
