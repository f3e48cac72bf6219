package x402

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/payoffer/caddy-pay-offer/payoffer/failpoint"
	"github.com/payoffer/caddy-pay-offer/payoffer/ledger"
)

const (
	// proofWait is how long a buyer waits for the transaction to appear on the
	// chain that we read.
	proofWait = 10 * time.Second
	// proofPoll is how often it is looked for.
	proofPoll = 250 * time.Millisecond
	// recordRetries, recordFirst and recordWait bound how long the buyer waits for a
	// settled payment to be recorded: the pauses double.
	recordRetries = 4
	recordFirst   = 100 * time.Millisecond
	recordWait    = 10 * time.Second
	// recordLaterFirst and recordLaterMost are the pauses after that.
	recordLaterFirst = 5 * time.Second
	recordLaterMost  = time.Minute
)

// leaseFor is how long one attempt may work on an intent: every facilitator
// once, after a wait for its turn, and one of them twice, the proof, and time to
// record; at most ledger.LongestLease.
func leaseFor(rail *Rail) time.Duration {
	lease := proofWait + 10*time.Second
	var longest time.Duration
	for _, f := range rail.Facilitators {
		lease += 2 * f.timeout
		longest = max(longest, f.timeout)
	}
	return min(lease+longest, ledger.LongestLease)
}

// submit has a committed intent settled. The next facilitator is asked only
// where the one before certainly did nothing. sent is false where nobody was
// reached: the intent is gone then, so that the same payload can come again.
func (s *Service) submit(ctx context.Context, rail *Rail, intent ledger.Intent, facilitators []*Facilitator) (became ledger.Intent, sent bool) {
	for _, f := range facilitators {
		if f.Host() != intent.Facilitator {
			if err := s.Ledger.MoveIntent(ctx, intent.IntentKey, s.Owner, f.Host()); err != nil {
				return intent, true
			}
			intent.Facilitator = f.Host()
		}
		reply, err := f.settle(ctx, facilitatorRequest{intent.Version, intent.Payload, intent.Requirement})
		s.heard(ctx, f, callSettle, reply.listing)
		if failed, ok := errors.AsType[*callError](err); ok && failed.notSent {
			s.Logger.Warn("facilitator could not be asked to settle", "facilitator", f.Host(), "error", failed.code)
			continue
		}
		return s.conclude(ctx, rail, intent, f, reply, err), true
	}
	return intent, s.Ledger.WithdrawIntent(ctx, intent.IntentKey, s.Owner) != nil
}

// conclude turns a facilitator's reply into what the ledger knows. Only a
// success is a yes; everything else is unknown until the chain decides.
func (s *Service) conclude(ctx context.Context, rail *Rail, intent ledger.Intent, f *Facilitator, reply settleReply, err error) ledger.Intent {
	if err != nil {
		s.Logger.Warn("settlement outcome unknown", "facilitator", f.Host(), "error", err.Error(), "nonce", intent.Nonce)
		return s.keepOpen(ctx, intent, "", err.Error())
	}
	transaction := ""
	if wordForm.MatchString(reply.Transaction) {
		transaction = strings.ToLower(reply.Transaction)
		intent.Transaction = transaction
	}
	if !*reply.Success || transaction == "" || !isNetwork(reply.Network, intent.Network) {
		s.Logger.Warn("settlement outcome unknown", "facilitator", f.Host(), "reason", reply.ErrorReason, "message", reply.ErrorMessage, "nonce", intent.Nonce)
		return s.keepOpen(ctx, intent, transaction, reply.reason())
	}
	if rail.Chain == nil {
		return s.recordClaim(ctx, rail, intent, reply.Payer)
	}
	failpoint.Hit(failpoint.ProofBefore)
	sighting, found, err := s.awaitProof(ctx, rail.Chain, intent)
	failpoint.Hit(failpoint.ProofAfter)
	switch {
	case err != nil:
		// The chain cannot be read now; the facilitator's word is a claim.
		s.Logger.Warn("settlement not proven yet: the chain could not be read", "network", intent.Network, "transaction", intent.Transaction)
		return s.recordClaim(ctx, rail, intent, reply.Payer)
	case found && !s.wasSigned(intent, sighting):
		return s.keepOpen(ctx, intent, transaction, reasonValue)
	case !found:
		s.Logger.Error("facilitator reported a settlement that the chain does not show", "facilitator", f.Host(), "network", intent.Network, "transaction", intent.Transaction)
		return s.keepOpen(ctx, intent, transaction, "transaction_not_found")
	}
	return s.recordProof(ctx, rail, intent, sighting)
}

// awaitProof waits a little for the transaction to reach the node that we read.
// A chain that cannot be read at all is an error; one that was read and does
// not show the transaction is not.
func (s *Service) awaitProof(ctx context.Context, chain Chain, intent ledger.Intent) (ledger.Sighting, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, proofWait)
	defer cancel()
	for looked := false; ; {
		sighting, found, err := chain.Prove(ctx, intent.IntentKey, intent.Transaction)
		switch {
		case err == nil && found:
			return sighting, true, nil
		case err == nil:
			looked = true
		case !looked:
			return ledger.Sighting{}, false, err
		}
		select {
		case <-ctx.Done():
			return ledger.Sighting{}, false, nil
		case <-time.After(proofPoll):
		}
	}
}

// wasSigned reports whether a Transfer is the one that was signed. A payer may
// spend the nonce of the authorization with another one, for less.
func (s *Service) wasSigned(i ledger.Intent, sighting ledger.Sighting) bool {
	if sighting.Amount == i.Amount {
		return true
	}
	s.Logger.Warn("an authorization was spent with another amount", "network", i.Network, "nonce", i.Nonce,
		"transaction", sighting.Transaction, "want", i.Amount, "got", sighting.Amount)
	return false
}

// isNetwork reports whether a facilitator's name of a network means a CAIP-2
// id. Some answer in the other dialect.
func isNetwork(name, caip2 string) bool {
	return name == caip2 || name == networkIn(1, caip2)
}

// recordClaim records a facilitator's success without proof. payer is whom the
// facilitator names as such, if it does. What cannot be true of this payment is
// no claim: where no chain is read, the operator finds out. Where one is read
// it may still show that the claim is false: a receipt is signed once it is
// proven.
func (s *Service) recordClaim(ctx context.Context, rail *Rail, i ledger.Intent, payer string) ledger.Intent {
	switch {
	case i.Transaction == zeroWord:
		return s.keepOpen(ctx, i, "", "transaction_zero")
	case payer != "" && !strings.EqualFold(payer, i.From):
		return s.keepOpen(ctx, i, i.Transaction, "transaction_of_another_payer")
	}
	claim := i
	claim.State, claim.Evidence = ledger.IntentSettled, ledger.EvidenceFacilitator
	if rail.Chain == nil {
		claim.Answer = s.answer(claim)
	}
	store := func(ctx context.Context) error {
		return s.Ledger.SettleIntent(ctx, claim.IntentKey, claim.Transaction, claim.Answer, claim.Evidence)
	}
	err := s.record(ctx, claim, store)
	switch {
	case errors.Is(err, ledger.ErrTransaction):
		return s.keepOpen(ctx, i, "", "transaction_of_another_payment")
	case err != nil:
		s.recordLater(ctx, claim, store)
	case rail.Chain != nil:
		s.Due() // it may be proven soon
	}
	return claim
}

// recordProof records the Transfer that an authorization made, and with it the
// intent as settled. When the ledger does not take it the chain is asked again:
// a Transfer that has left it is not recorded. What stays open then is resolved
// by the chain later.
func (s *Service) recordProof(ctx context.Context, rail *Rail, i ledger.Intent, sighting ledger.Sighting) ledger.Intent {
	proven, gone := i, errors.New("the transaction has left the chain")
	proven.State, proven.Evidence, proven.Transaction = ledger.IntentSettled, ledger.EvidenceChain, sighting.Transaction
	proven.Answer = s.answer(proven)
	again := false
	err := s.record(ctx, proven, func(ctx context.Context) error {
		if again {
			var found bool
			var err error
			if sighting, found, err = rail.Chain.Prove(ctx, i.IntentKey, proven.Transaction); err != nil {
				return err
			}
			if !found {
				return gone
			}
		}
		again = true
		sighting.Via, sighting.Own = "x402", i.Own || sighting.Own
		sighting.Intent, sighting.Answer = &i.IntentKey, proven.Answer
		_, err := s.Ledger.Record(ctx, nil, sighting)
		return err
	})
	if errors.Is(err, gone) {
		return s.keepOpen(ctx, i, i.Transaction, "transaction_not_found")
	}
	return proven
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

// record stores that a payment was charged, in a few attempts. The buyer is
// told so even when it fails.
func (s *Service) record(ctx context.Context, i ledger.Intent, store func(context.Context) error) error {
	failpoint.Hit(failpoint.RecordBefore)
	ctx, cancel := context.WithTimeout(ctx, recordWait)
	defer cancel()
	err := store(ctx)
	for try := 0; err != nil && !errors.Is(err, ledger.ErrTransaction) && ctx.Err() == nil && try < recordRetries; try++ {
		time.Sleep(recordFirst << try)
		err = store(ctx)
	}
	if err == nil {
		failpoint.Hit(failpoint.RecordAfter)
		return nil
	}
	s.Logger.Error("a settled payment could not be recorded; it stays open",
		"network", i.Network, "transaction", i.Transaction, "nonce", i.Nonce, "error", err.Error())
	return err
}

// recordLater goes on in the background until the ledger takes a claim, or is
// closed: while no chain can be read nobody else could tell that it was settled.
func (s *Service) recordLater(ctx context.Context, i ledger.Intent, store func(context.Context) error) {
	if _, busy := s.recording.LoadOrStore(i.IntentKey, true); busy {
		return
	}
	ctx = context.WithoutCancel(ctx)
	end, _ := s.begin() // the settlement holds the ledger now
	go func() {
		defer end()
		defer s.recording.Delete(i.IntentKey)
		for wait := recordLaterFirst; ; wait = min(2*wait, recordLaterMost) {
			time.Sleep(wait) // ctx has no end
			err := store(ctx)
			switch {
			case err == nil:
				s.Logger.Info("a settled payment was recorded late", "network", i.Network, "transaction", i.Transaction, "nonce", i.Nonce)
				return
			case errors.Is(err, ledger.ErrNotOpen), errors.Is(err, ledger.ErrNoIntent), errors.Is(err, ledger.ErrIntentState), errors.Is(err, ledger.ErrTransaction):
				return
			}
		}
	}()
}

// zeroWord is the hash of no transaction.
const zeroWord = "0x0000000000000000000000000000000000000000000000000000000000000000"

// refuse records a definite no.
func (s *Service) refuse(ctx context.Context, i ledger.Intent, reason string) {
	if err := s.Ledger.RefuseIntent(ctx, i.IntentKey, reason); err != nil {
		s.Logger.Warn("a payment that did not happen could not be recorded", "nonce", i.Nonce, "error", err.Error())
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
